"""A JupyterLab server that shares nothing with the person who runs it: own home, settings, kernels and notebooks."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 60
STOP_SECONDS = 10

SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "docmanager-extension/plugin": {"autosave": False},
}


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, Path]]:
    """Starts JupyterLab in `folder`; gives its address and the folder its notebooks are in.

    Raises:
        RuntimeError: It does not answer; the message holds what it said.
    """
    notebooks, log = folder / "notebooks", folder / "log"
    for name in ("home", "notebooks"):
        (folder / name).mkdir(parents=True)
    _write_settings(folder / "settings")
    with (
        log.open("w") as file,
        subprocess.Popen(_command(notebooks), env=_environment(folder), stdout=file, stderr=file) as process,
    ):
        try:
            yield _address(log), notebooks
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Asks it to end; now and then it hears the signal and stays all the same. Kernels end with their server."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _command(notebooks: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--notebook-dir={notebooks}"),
        # The port is taken from a range that leaves other servers' defaults alone.
        *("--ServerApp.port=18888", "--ServerApp.port_retries=100"),
        *("--IdentityProvider.token=", "--ServerApp.password=", "--LabApp.expose_app_in_browser=True"),
        *("--LabApp.news_url=", "--LabApp.extension_manager=readonly"),
    ]


def _environment(folder: Path) -> dict[str, str]:
    own = {
        "HOME": "home",
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    return {**os.environ, **{name: str(folder / place) for name, place in own.items()}}


def _write_settings(folder: Path) -> None:
    for plugin, values in SETTINGS.items():
        file = folder / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))


def _address(log: Path) -> str:
    """The address, once the server answers there; its log names it a moment earlier."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        found = re.search(r"http://localhost:\d+/", log.read_text())
        if found and _answers(found.group()):
            return found.group()
        time.sleep(0.05)
    raise RuntimeError("JupyterLab does not answer:\n" + log.read_text())


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(f"{address}api/status").close()
    except OSError:
        return False
    return True
