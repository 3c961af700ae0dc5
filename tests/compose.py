"""docker-compose.yml as data: each service's command, with the paths of its container laid into a folder of a test."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[1]
FILE = PROJECT / "docker-compose.yml"
DOCKERFILE = PROJECT / "Dockerfile"


def services() -> dict[str, dict[str, Any]]:
    """All services, anchors merged."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["services"]
    return found


def of_profile(profile: str) -> set[str]:
    """Names of the services that `docker compose --profile …` starts."""
    return {name for name, service in services().items() if profile in service.get("profiles", [profile])}


def entrypoint_of(target: str) -> list[str]:
    """What the Dockerfile says of this target."""
    (stage,) = re.findall(rf"^FROM \S+ AS {target}\n(.*?)(?=^FROM |\Z)", DOCKERFILE.read_text(), re.M | re.S)
    (entrypoint,) = re.findall(r"^ENTRYPOINT (\[.*\])$", stage, re.M)
    return list(yaml.safe_load(entrypoint))


@dataclass(frozen=True)
class Service:
    """One service whose named volumes are folders below `volumes`."""

    name: str
    volumes: Path

    @property
    def said(self) -> dict[str, Any]:
        """What the file says of it."""
        return services()[self.name]

    def command(self) -> list[str]:
        """What its container runs, as a command line for this machine."""
        entrypoint = self.said.get("entrypoint") or entrypoint_of(self.said["build"]["target"])
        return self.here([*entrypoint, *self.said["command"]])

    def health(self) -> list[str]:
        """Its health check, as a command line for this machine."""
        kind, *command = self.said["healthcheck"]["test"]
        assert kind == "CMD"
        return self.here(command)

    def environment(self) -> dict[str, str]:
        """Variables of its container."""
        return {name: self._mapped(value) for name, value in self.said.get("environment", {}).items()}

    def here(self, command: list[str]) -> list[str]:
        """The same with the programs and paths of this machine."""
        program, *arguments = command
        bin_folder = Path(sys.executable).parent
        programs = {"python": sys.executable, "sidecar": str(bin_folder / "sidecar")}
        return [programs.get(program, program), *(self._mapped(argument) for argument in arguments)]

    def mounts(self) -> dict[str, Path]:
        """Paths in its container, and what is there: folders of named volumes are made."""
        found = {}
        for mount in self.said.get("volumes", []):
            source, target, *_ = mount.split(":")
            found[target] = PROJECT / source if source.startswith(".") else self.volumes / source
        return found

    def _mapped(self, argument: str) -> str:
        for target, source in self.mounts().items():
            argument = re.sub(rf"(?<![\w/.]){re.escape(target)}(?![\w.])", str(source), argument)
        return argument
