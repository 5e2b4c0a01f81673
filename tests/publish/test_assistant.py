"""The server of an assistant: tools from declarations, answers and refusals as data, over the SDK's own client."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import cookbook as cb
from cookbook.__main__ import main
from cookbook.publish import assistant

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("what_runs", "need", "train", "serve", "finetune", "compare")
CALLS = {
    "what_runs": {"accelerator": "rtx-4090", "models": ["llama3_8b", "llama3_70b"]},
    "need": {"model": "llama3_8b", "accelerators": ["rtx-4090", "h100-sxm"]},
    "train": {"model": "llama2_7b", "accelerator": "h100-sxm", "devices": [32, 64], "tokens": "1T"},
    "serve": {"model": "llama3_8b", "accelerator": "h100-sxm", "rate": 2, "devices": 1},
    "finetune": {"model": "llama3_8b", "accelerator": "rtx-4090", "tokens": 2e7, "method": "qlora"},
    "compare": {"model": "resnet50", "accelerators": ["t4", "h100-sxm"]},
}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_answers_with_data(name):
    found = assistant.call(name, CALLS[name])
    assert not found["is_error"] and json.loads(json.dumps(found["structured_content"], allow_nan=False))
    assert found["content"][0]["text"]


def test_there_are_six_tools_and_each_argument_has_words():
    tools = {tool["name"]: tool for tool in assistant.tools()}
    assert tuple(tools) == TOOLS
    for tool in tools.values():
        assert tool["annotations"]["read_only_hint"] and tool["description"].endswith(".")
        assert all(value["description"] for value in tool["input_schema"]["properties"].values())
    assert tools["train"]["input_schema"]["required"] == ["model", "accelerator", "devices", "tokens"]
    assert tools["serve"]["input_schema"]["properties"]["simulated"]["type"] == "boolean"


@pytest.mark.parametrize("name", TOOLS)
def test_the_arguments_of_a_call_are_of_the_declared_types(name):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(CALLS[name], assistant.schema(name))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**CALLS[name], "nothing": 1}, assistant.schema(name))


def test_points_come_with_intervals_evidence_and_assumptions():
    data = assistant.call("what_runs", CALLS["what_runs"])["structured_content"]
    row = next(row for row in data["table"] if row["fits"] == "yes")
    assert row["tokens_per_s_low"] < row["tokens_per_s"] < row["tokens_per_s_high"] and row["tier"]
    assert "vllm" in data["assumed"] and data["summary"]
    service = assistant.call("serve", CALLS["serve"])["structured_content"]
    (stack,) = service["stacks"]
    assert stack["ttft_p50_low80"] < stack["ttft_p50"] < stack["ttft_p50_high80"] and service["assumed"]
    assert stack["ttft_p50"] == cb.serve("llama3_8b", "h100-sxm", rate=2, devices=1).rows[0]["ttft_p50"]


BAD = {
    "an unknown device": ("what_runs", {"accelerator": "rtx-4909"}, "accelerator", "rtx-4090"),
    "an unknown model": ("need", {"model": "llama3_8x"}, "model", "llama3_8b"),
    "another type": ("train", {**CALLS["train"], "devices": {"a": 1}}, "devices", "whole number"),
    "a list": ("serve", {**CALLS["serve"], "rate": [1, 2]}, "rate", "more than 0"),
    "no such argument": ("serve", {**CALLS["serve"], "speed": 1}, "", "has no argument 'speed'"),
    "a missing argument": ("serve", {"model": "llama3_8b"}, "", "needs accelerator"),
    "no such tool": ("explain", {"path": "training.csv"}, "", "no tool 'explain'; take one of what_runs"),
    "what fits nowhere": (
        "serve",
        {"model": "llama3_405b", "accelerator": "rtx-4090", "rate": 1, "tp": 1},
        "tp",
        "tp =",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_refusal_comes_back_as_data(what):
    name, given, field, words = BAD[what]
    found = assistant.call(name, given)
    assert found["is_error"] and json.loads(found["content"][0]["text"]) == found["structured_content"]
    refusal = found["structured_content"]["refusal"]
    assert list(refusal) == ["why", "code", "field", "value", "allowed", "nearest", "remedy"]
    assert refusal["field"] == field and refusal["remedy"] and words in json.dumps(refusal)


def test_a_long_answer_is_text_and_data():
    found = assistant.call("what_runs", {"accelerator": "rtx-4090"})
    assert len(found["content"][0]["text"]) < assistant.MAX_TEXT < len(json.dumps(found["structured_content"]))
    assert "Qwen3 8B" in found["content"][0]["text"]


@pytest.mark.all
def test_a_client_lists_calls_and_is_refused_over_standard_input():
    """The SDK's own client starts the command, and talks to it over its standard input and output."""

    anyio, mcp = pytest.importorskip("anyio"), pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

    async def asked() -> tuple:
        command = mcp.StdioServerParameters(command=sys.executable, args=["-m", "cookbook", "mcp"], cwd=str(ROOT))
        async with mcp.stdio_client(command) as (reads, writes), mcp.ClientSession(reads, writes) as session:
            started = await session.initialize()
            tools = await session.list_tools()
            good = await session.call_tool("need", CALLS["need"])
            bad = await session.call_tool("what_runs", {"accelerator": "rtx-4909"})
            return started, tools, good, bad

    started, tools, good, bad = anyio.run(asked)
    assert started.server_info.name == "cookbook" and tuple(tool.name for tool in tools.tools) == TOOLS
    assert good.structured_content["table"][0]["device"] == "rtx-4090" and not good.is_error
    assert bad.is_error and bad.structured_content["refusal"]["nearest"][0] == "rtx-4090"


@pytest.mark.all
def test_the_server_listens_to_no_network():
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    code = (
        "import socket\n"
        "def refused(*_, **__): raise AssertionError('bound')\n"
        "socket.socket.bind = socket.socket.listen = refused\n"
        "from cookbook.publish import assistant\n"
        "assistant.serve()"
    )
    ended = subprocess.run([sys.executable, "-c", code], input="", capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert ended.returncode == 0 and ended.stdout == "", ended.stderr


def test_without_the_extra_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "anyio", None)
    with pytest.raises(SystemExit, match="this needs anyio: install the extra `mcp`"):
        main(["mcp"])
