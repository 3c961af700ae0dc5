"""The chain of addons asks whom mitmproxy's own asks, in its order."""

from typing import Any

from mitmproxy.addonmanager import AddonManager
from mitmproxy.exceptions import AddonHalt
from mitmproxy.hooks import DoneHook, RunningHook
from mitmproxy.master import Master
from mitmproxy.options import Options

from sidecar.addon_chain import AddonChain


class Named:
    def __init__(self, name: str, heard: list[str]) -> None:
        self.name = name
        self.heard = heard


class Sync(Named):
    def running(self) -> None:
        self.heard.append(self.name)


class Async(Named):
    async def running(self) -> None:
        self.heard.append(self.name)


class Deaf(Named):
    def done(self) -> None:
        self.heard.append(f"{self.name} done")


class Failing(Named):
    def running(self) -> None:
        self.heard.append(self.name)
        raise ValueError("a bug of somebody's")


class Halting(Named):
    def running(self) -> None:
        self.heard.append(self.name)
        raise AddonHalt


class Scripts(Named):
    """Holds others, which come and go."""

    def __init__(self, name: str, heard: list[str]) -> None:
        super().__init__(name, heard)
        self.addons: list[Any] = []


async def heard_by(kind: type[AddonManager]) -> list[str]:
    master = Master(Options())
    master.addons = chain = kind(master)
    heard: list[str] = []
    scripts = Scripts("scripts", heard)
    chain.add(Sync("one", heard), Deaf("deaf", heard), Async("two", heard), Failing("failing", heard), scripts)
    await chain.trigger_event(RunningHook())
    scripts.addons.append(Sync("inner", heard))
    await chain.trigger_event(RunningHook())
    chain.add(Sync("last", heard))
    chain.remove(chain.get("two"))
    await chain.trigger_event(RunningHook())
    chain.add(Halting("halting", heard), Sync("behind", heard))
    await chain.trigger_event(RunningHook())
    await chain.trigger_event(DoneHook())
    return heard


async def test_the_same_addons_in_the_same_order() -> None:
    heard = await heard_by(AddonChain)
    assert heard == await heard_by(AddonManager)
    assert heard[:3] == ["one", "two", "failing"]
    assert "inner" in heard
    assert "behind" not in heard
    assert heard[-1] == "deaf done"
