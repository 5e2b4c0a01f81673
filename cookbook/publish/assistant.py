"""Public functions as tools of an assistant: a server of the Model Context Protocol over standard input and output."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from cookbook.catalog.fields import NUMERIC, Field, declared
from cookbook.catalog.reading import check_names
from cookbook.publish.commands import COMMANDS, answer, arguments_of, as_data, as_json, as_text, refusal_data
from cookbook.units import shown

# Files are read by the shell alone.
TOOLS = {
    name.replace("-", "_"): command
    for name, command in COMMANDS.items()
    if not any(Path in field.records for field in declared(command.function).values())
}
# Letters of an answer as JSON that are sent as text too, for assistants that read text alone; longer ones as a table.
MAX_TEXT = 20_000
WORDS = (
    "What deep learning needs from hardware: predictions with 80 % intervals, from sourced facts. A refusal says what "
    "is wrong with an argument and what to give; numbers are in SI units."
)


def tools() -> list[dict[str, Any]]:
    """Return the tools, their arguments as the public functions declare them."""
    return [
        {
            "name": name,
            "description": f"{command.words[:1].upper()}{command.words[1:]}.",
            "input_schema": schema(name),
            "annotations": {"read_only_hint": True, "open_world_hint": False},
        }
        for name, command in TOOLS.items()
    ]


def schema(name: str) -> dict[str, Any]:
    """Return the arguments of the tool called `name` as a JSON schema."""
    arguments = list(arguments_of(TOOLS[name].function))
    properties = {
        argument.field.name: {**_value(argument.field), "description": argument.words} for argument in arguments
    }
    required = [argument.field.name for argument in arguments if argument.required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _value(field: Field) -> dict[str, Any]:
    """Return the type of a value, or of several; what it may be is said by the refusal of a field, in words."""
    if field.type == "flag":
        return {"type": "boolean"}
    types = ["object"] if field.type == "record" else ["number", "string"] if field.type in NUMERIC else ["string"]
    if field.type == "choice" and not all(isinstance(choice, str) for choice in field.spelt):
        types = ["number", "string"]
    if field.many or field.type == "array":
        one = {"type": ["number"] if field.type == "array" else types}
        return {"anyOf": [one, {"type": "array", "items": one}]}
    # Columns of a scenario may be text that names a data set, or a number.
    return {"type": types}


def call(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of the tool called `name` to the arguments that are `given`, or the refusal, both as data."""
    command = TOOLS.get(name, COMMANDS["need"])
    try:
        _check(name, given)
        with redirect_stdout(sys.stderr):  # standard output is the protocol's
            found = answer(command, given)
    except (ValueError, KeyError, OSError) as problem:
        refusal = {"refusal": refusal_data(problem, command, given)}
        return {"content": [_text(as_json(refusal))], "structured_content": refusal, "is_error": True}
    data = as_data(found)
    words = as_json(data)
    words = words if len(words) <= MAX_TEXT else as_text(found, command.columns)
    return {"content": [_text(words)], "structured_content": data, "is_error": False}


def _check(name: str, given: dict[str, Any]) -> None:
    """Refuse arguments that a tool does not have, and one that it needs where it is not given."""
    if name not in TOOLS:
        raise ValueError(f"there is no tool {shown(name)}; take one of {', '.join(TOOLS)}")
    properties, required = (schema(name)[part] for part in ("properties", "required"))
    check_names(given, list(properties), name)
    if missing := [each for each in required if each not in given]:
        raise ValueError(f"{name} needs {missing[0]}; give {', '.join(required)}")


def _text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def serve() -> None:
    """Answer an assistant until it closes standard input; nothing listens to a network."""
    import anyio
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp.types import CallToolResult, ListToolsResult

    async def listed(*_: Any) -> Any:
        return ListToolsResult.model_validate({"tools": tools()})

    async def called(_: Any, request: Any) -> Any:
        return CallToolResult.model_validate(call(request.name, request.arguments or {}))

    async def run() -> None:
        server: Any = Server(
            "cookbook",
            version=sys.modules["cookbook"].__version__,
            instructions=WORDS,
            on_list_tools=listed,
            on_call_tool=called,
        )
        async with stdio_server() as (reads, writes):
            await server.run(reads, writes, server.create_initialization_options())

    anyio.run(run)
