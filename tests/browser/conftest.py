"""A real browser, headless; tests skip where there is none."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "reporters"))  # the sample reports of the reporters' tests

from chromium import Chrome

SCREENSHOTS = "FIRSTNAN_SCREENSHOTS"
"""Environment variable: folder in which screenshots are kept; without it they go to pytest's temporary folder."""


def _program(names: tuple[str, ...]) -> str | None:
    return next((path for name in names if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium under the control of its driver; nothing is downloaded: both must be installed."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    program = _program(("chromium", "chromium-browser", "google-chrome"))
    controller = _program(("chromedriver",))
    if program is None or controller is None:
        pytest.skip("chromium and chromedriver are not installed (tools/install_chromium.sh)")
    options = Options()
    options.binary_location = program
    profile = tmp_path_factory.mktemp("profile")
    for argument in (
        "--headless=new",
        "--no-sandbox",  # containers of CI run as root
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--hide-scrollbars",
        "--force-device-scale-factor=1",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(executable_path=controller))
    made.set_script_timeout(60)
    yield made
    made.quit()


@pytest.fixture
def chrome(driver: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """The browser, asked at the end whether it complained or asked for anything but the page."""
    wanted = os.environ.get(SCREENSHOTS)
    shots = Path(wanted) if wanted else tmp_path_factory.getbasetemp() / "screenshots"
    shots.mkdir(parents=True, exist_ok=True)
    browser = Chrome(driver, tmp_path, shots)
    yield browser
    assert browser.messages() == []
    assert {url.partition("?")[0] for url in browser.requests()} <= {p.as_uri() for p in tmp_path.glob("*.html")}


@pytest.fixture
def center(chrome: Chrome) -> Callable[[int, int], tuple[float, float]]:
    """Row and column of the heat map -> the middle of the cell, in pixels from the middle of the canvas."""

    def find(row: int, col: int) -> tuple[float, float]:
        spot = chrome.js(
            "const [row, col] = arguments; const canvas = document.querySelector('canvas.heat');"
            "const box = canvas.getBoundingClientRect(); const at = JSON.parse(canvas.dataset.plot);"
            "return [at.left + (col + 0.5 - at.x0) * at.wide - box.width / 2,"
            " at.top + (row + 0.5 - at.y0) * at.high - box.height / 2]",
            row,
            col,
        )
        return spot[0], spot[1]

    return find
