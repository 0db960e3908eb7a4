"""A browser under test: opens reports, looks at them, keeps screenshots."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstnan.answer.model import Report
from firstnan.show import Format, Settings, render


@dataclass
class Chrome:
    """A driver and what its tests ask of it."""

    driver: Any
    folder: Path
    shots: Path

    def open(
        self,
        report: Report,
        name: str,
        *,
        size: tuple[int, int] = (1280, 900),
        dark: bool = False,
        **settings: object,
    ) -> None:
        """Writes the page, opens it from the file, with the given size and colours of the system."""
        path = self.folder / f"{name}.html"
        path.write_text(render(report, Format.HTML, Settings(**settings)), "utf-8")  # type: ignore[arg-type]
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        self.requests()
        self.messages()
        self.driver.get(path.as_uri())

    def js(self, script: str, *arguments: object) -> Any:
        """The value of a script that ends in ``return``."""
        return self.driver.execute_script(script, *arguments)

    def settle(self) -> None:
        """Waits until what was asked for is painted."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        )

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.driver.find_elements("css selector", selector)
        return found

    def text(self, selector: str) -> str:
        """The text of the first element, as it is once what was asked for is painted."""
        self.settle()
        found: str = self.js("return document.querySelector(arguments[0]).textContent", selector)
        return found

    def requests(self) -> list[str]:
        """Addresses that were asked for since the last time."""
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def messages(self) -> list[str]:
        """What the console said since the last time: errors, warnings, violations of the policy."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def shot(self, name: str, *, whole: bool = False) -> bytes:
        """Keeps a screenshot; ``whole``: of all the page."""
        self.settle()
        if whole:
            height = self.js("return document.documentElement.scrollHeight")
            width = self.js("return window.innerWidth")
            metrics = {"width": width, "height": min(height, 8000), "deviceScaleFactor": 1, "mobile": False}
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            self.settle()
        image: bytes = self.driver.get_screenshot_as_png()
        (self.shots / f"{name}.png").write_bytes(image)
        return image
