"""What the template of a namespace lists: public functions, classes, and classes that the functions return."""

import inspect
import pkgutil
from importlib import import_module

import cookbook
from cookbook import formulas


def setup(app):
    """Offer the contents of each namespace to the template; names that are loaded on first use are among them."""
    names = ["planning", "panels", "charts", "measure"]
    names += [f"formulas.{found.name}" for found in pkgutil.iter_modules(formulas.__path__) if found.name[0] != "_"]
    modules = [cookbook, *(import_module(f"cookbook.{name}") for name in names)]
    public = {getattr(cookbook, name): name for name in cookbook.__all__}
    short = {module.__name__: f"cb.{public[module]}" for module in modules if module in public}
    context = {"short": {"cookbook": "cb"} | short, "contents": _contents(modules)}
    app.connect("config-inited", lambda _, config: config.autosummary_context.update(context))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _contents(modules):
    """Return functions, classes and results of each module; a result is listed once, by its full name."""
    contents, seen = {}, set()
    for module in modules:
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        public = dict.fromkeys([*getattr(module, "__all__", ()), *(name for name in own if not name.startswith("_"))])
        values = {name: value for name in public if callable(value := getattr(module, name))}
        returned = dict.fromkeys(filter(None, map(_returned, values.values())))
        results = [name for name in returned if name not in seen and name.rpartition(".")[2] not in values]
        seen.update(results)
        contents[module.__name__] = {
            "functions": [name for name, value in values.items() if not inspect.isclass(value)],
            "classes": [name for name, value in values.items() if inspect.isclass(value)],
            "results": results,
        }
    return contents


def _returned(function):
    """Return the full name of the package's class that a function returns; None for anything else."""
    function = inspect.unwrap(function)
    returned = getattr(function, "__annotations__", {}).get("return")
    result = vars(import_module(function.__module__)).get(returned) if isinstance(returned, str) else returned
    if inspect.isclass(result) and result.__module__.startswith("cookbook."):
        return f"{result.__module__}.{result.__qualname__}"
    return None
