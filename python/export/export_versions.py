"""Which lock file the installed packages are, or the pair that clashes."""

import importlib.metadata
import pathlib

from packaging.requirements import Requirement

EXPORTERS = {"dynamo": "onnxscript", "optimum": "optimum-onnx"}  # what each cannot do without


class Clash(Exception):
    pass


def _installed(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def read_lock(name):
    lines = pathlib.Path(__file__).with_name(f"{name}.lock").read_text(encoding="utf-8").split()
    return dict(line.split("==") for line in lines if "==" in line)


def _declared_clash(packages):
    """Two installed packages of which one says that it does not work with the other."""
    for package in packages:
        for line in importlib.metadata.requires(package) or [] if _installed(package) else []:
            needs = Requirement(line)
            if needs.marker and not needs.marker.evaluate({"extra": ""}):
                continue
            found = _installed(needs.name)
            if found and not needs.specifier.contains(found, prereleases=True):
                return (f"{package} {_installed(package)} and {needs.name} {found} do not work "
                        f"together: the first needs {needs.name}{needs.specifier}")
    return None


def choose(wanted, any_versions):
    """The exporter: 'dynamo' or 'optimum'. Clash says which pair of versions is in the way."""
    locks = {name: read_lock(name) for name in EXPORTERS}
    clash = _declared_clash(sorted({package for lock in locks.values() for package in lock}))
    if clash:
        raise Clash(clash)
    here = [name for name, package in EXPORTERS.items() if _installed(package)]
    if wanted == "auto":
        exact = [name for name in here if not differences(locks[name])]
        wanted = (exact or here or ["dynamo"])[0]
    if wanted not in here:
        raise Clash(f"exporter '{wanted}' needs {EXPORTERS[wanted]}, which is not installed: "
                    f"pip install -r {wanted}.lock in a virtual environment of its own")
    different = differences(locks[wanted])
    if different and not any_versions:
        package, version, found = different[0]
        anchor = EXPORTERS[wanted] if package != EXPORTERS[wanted] else "torch"
        raise Clash(
            f"{anchor} {_installed(anchor)} and {package} {found or '(not installed)'} are no pair "
            f"that was tried: {wanted}.lock has {package} {version}. pip install -r {wanted}.lock, "
            "or --any-versions to go on (the checks that follow still hold)")
    return wanted


def differences(lock):
    """[(package, version in the lock, version here)]."""
    return [(package, version, _installed(package)) for package, version in lock.items()
            if _installed(package) != version]
