"""Who may include whom."""

import functools
import re

COMPILE_PARTS = ["compile/ir", "compile/eval", "compile/import", "compile/passes",
                 "compile/quantize", "compile/lower", "compile/tune"]
RUN_PARTS = ["run/kv", "run/step", "run/sched", "run/exec"]

# The table of the design; every module may include base too. CMake may declare less, never more.
MAY_INCLUDE = {
    "base": [],
    "tensor": [],
    "text": [],
    "device": ["tensor"],
    "kernels": ["tensor", "device"],
    "plan": ["tensor", "text"],
    "compile/ir": ["tensor"],
    "compile/eval": ["compile/ir", "kernels", "tensor", "device"],
    "compile/import": ["compile/ir", "tensor", "text"],
    "compile/passes": ["compile/ir", "compile/eval", "tensor"],
    "compile/quantize": ["compile/ir", "compile/eval", "kernels", "tensor"],
    "compile/lower": ["compile/ir", "kernels", "plan", "tensor"],
    "compile/tune": ["kernels", "device", "plan", "tensor"],
    "compile": [*COMPILE_PARTS, "plan", "text", "tensor"],
    "run/kv": [],
    "run/step": ["run/kv", "tensor"],
    "run/sched": ["run/step", "run/kv"],
    "run/exec": ["run/step", "run/kv", "plan", "kernels", "device", "tensor"],
    "run/engine": [*RUN_PARTS, "plan", "text", "device", "tensor"],
    "measure": ["compile", "run/engine", "plan", "text", "tensor"],
    "api": ["compile", "compile/eval", "run/engine", "run/kv", "measure", "plan", "text", "device",
            "tensor"],
}

# Public headers that every module may include; the others belong to api.
SHARED_PUBLIC = {"kvern/error.h", "kvern/types.h"}

# {(file, included header): reason}
ALLOWED = {}


def module_of(path, modules):
    """The most specific module that holds src/<path>, or None."""
    folder = path.rsplit("/", 1)[0] if "/" in path else ""
    while folder:
        if folder in modules:
            return folder
        folder = folder.rsplit("/", 1)[0] if "/" in folder else ""
    return None


@functools.cache
def declared(tree):
    """{module: (line, deps)} from the kvern_module lines of src/CMakeLists.txt."""
    text = re.sub(r'#[^\n]*', "", tree.text("src/CMakeLists.txt"))
    modules = {}
    for match in re.finditer(r'kvern_module\(\s*([^)]*)\)', text):
        words = match.group(1).split()
        deps, key = [], None
        for word in words[1:]:
            if word in ("DEPS", "LIBS", "RECURSE"):
                key = word
            elif key == "DEPS":
                deps.append(word)
        modules[words[0]] = (text.count("\n", 0, match.start()) + 1, deps)
    return modules


def check_declarations(tree):
    for module, (line, deps) in declared(tree).items():
        where = f"src/CMakeLists.txt:{line}"
        if module not in MAY_INCLUDE:
            yield f"{where}: module {module} is not in the table of scripts/house/layers.py"
            continue
        for dep in deps:
            if dep != "base" and dep not in MAY_INCLUDE[module]:
                allowed = ", ".join(["base", *MAY_INCLUDE[module]])
                yield f"{where}: {module} may not depend on {dep} (allowed: {allowed})"


def _module_include(tree, path, module, name):
    """Why src/<module> may not include the project header `name`, or None."""
    if name.startswith("kvern/"):
        if module == "api" or name in SHARED_PUBLIC:
            return None
        return f"{module} may include {' and '.join(sorted(SHARED_PUBLIC))} alone of kvern/"
    if f"src/{name}" not in tree.files:
        return f"there is no src/{name}; includes are rooted at src/"
    modules = declared(tree)
    target = module_of(name, modules)
    if target is None:
        return f"{name} belongs to no module of src/CMakeLists.txt"
    deps = modules[module][1]
    if target == module or (target in deps and target in ["base", *MAY_INCLUDE.get(module, [])]):
        return None
    return f"{module} may not include {target} (declared: {', '.join(deps) or 'nothing'})"


def check_modules(tree):
    modules = declared(tree)
    for path in tree.under("src"):
        module = module_of(path.removeprefix("src/"), modules)
        if module is None:
            yield f"{path}:1: belongs to no module declared in src/CMakeLists.txt"
            continue
        for line, quote, name in tree.includes(path):
            project = quote == '"' or f"src/{name}" in tree.files or name.startswith("kvern/")
            if not project or (path, name) in ALLOWED:
                continue
            reason = _module_include(tree, path, module, name)
            if reason:
                yield f"{path}:{line}: includes {name}: {reason}"


def check_outside(tree):
    """Public headers know only each other; applications know only the public headers."""
    own_prefixes = {"include": ("kvern/",), "apps": ("kvern/", "apps/"),
                    "python": ("kvern/", "python/")}
    for top, prefixes in own_prefixes.items():
        for path in tree.under(top):
            for line, quote, name in tree.includes(path):
                project = quote == '"' or f"src/{name}" in tree.files
                if project and not name.startswith(prefixes) and (path, name) not in ALLOWED:
                    wanted = " or ".join(prefixes)
                    yield f"{path}:{line}: includes {name}: {top}/ may include {wanted} only"


RULES = (check_declarations, check_modules, check_outside)
