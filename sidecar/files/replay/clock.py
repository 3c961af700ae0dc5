"""When what was recorded is due again."""

import asyncio


class Clock:
    """Runs `speed` times as fast as the recording; 0: everything is due at once."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._origin = asyncio.get_running_loop().time()

    def set(self, at_ms: float) -> None:
        """Now is this moment of the recording; what comes behind it follows from here."""
        if self._speed:
            self._origin = asyncio.get_running_loop().time() - at_ms / 1000 / self._speed

    async def until(self, at_ms: float) -> None:
        """Wait for a moment of the recording. Late writes are not made later by those before them."""
        left = self._origin + at_ms / 1000 / self._speed - asyncio.get_running_loop().time() if self._speed else 0.0
        await asyncio.sleep(max(left, 0.0))
