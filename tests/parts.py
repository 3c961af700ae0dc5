"""Real parts that tests need: absent on a laptop they are a skip that says what to install, in CI a failure."""

import importlib
import os
import shutil
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest


def require_program(name: str, how: str) -> str:
    """Path of a program."""
    found = shutil.which(name)
    return found if found is not None else _missing(name, how)


def require_module(name: str, how: str) -> ModuleType:
    """An importable module."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return _missing(name, how)


def require_path(path: Path, name: str, how: str) -> Path:
    """A file or folder that an installation leaves."""
    return path if path.exists() else _missing(name, how)


def _missing(name: str, how: str) -> NoReturn:
    message = f"{name} is missing: {how}"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message, allow_module_level=True)
