"""One JupyterLab and one Chromium for all browser tests, one page for each."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import CHROMIUM_FLAGS, Lab
from playwright.sync_api import Browser, Dialog, sync_playwright
from server import serving


# Package scope, not session: while Playwright is open its event loop runs in the main thread, where later tests of
# other folders want to run one of their own.
@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    with serving(tmp_path_factory.mktemp("jupyterlab")) as running:
        yield running


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        executable = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        chromium = playwright.chromium.launch(executable_path=executable, args=list(CHROMIUM_FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def lab(server: tuple[str, Path], browser: Browser) -> Iterator[Lab]:
    """JupyterLab in a fresh browser profile, 1,400 × 900 px, in the light theme."""
    address, notebooks = server
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    opened = Lab(context.new_page(), address, notebooks)
    yield opened
    opened.shut_down_kernels()
    context.close()


@pytest.fixture
def alerts(lab: Lab) -> list[str]:
    """What scripts said in dialogs: stays empty where no script of a stranger runs."""
    said: list[str] = []

    def note(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    lab.page.on("dialog", note)
    return said
