"""Install packages into the environment of this interpreter: with uv where it can be had, else with pip.

uv is several times faster, but does not read pip's configuration. What pip was told (indexes, folders of wheels,
certificates) is handed on to it, so that both choose the same builds.
"""

import os
import subprocess
import sys

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def main(arguments: list[str]) -> int:
    """Install what ``pip install`` would with these arguments."""
    if subprocess.run([*PIP, "install", "--quiet", "uv"], check=False).returncode == 0:
        uv = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable]
        if subprocess.run([*uv, *arguments], env=os.environ | uv_settings(pip_settings()), check=False).returncode == 0:
            return 0
        print("uv could not install this; trying pip", flush=True)
    return subprocess.run([*PIP, "install", *arguments], check=False).returncode


def pip_settings() -> dict[str, str]:
    """Return pip's settings by name: from its files and, above them, from the environment."""
    listed = subprocess.run([*PIP, "config", "list"], check=True, capture_output=True, text=True).stdout
    pairs = (line.split("=", 1) for line in listed.splitlines() if "=" in line)
    settings = {key.split(".", 1)[1].lstrip("."): value.strip("'\"") for key, value in pairs if "." in key}
    named = {key[4:].lower().replace("_", "-"): value for key, value in os.environ.items() if key.startswith("PIP_")}
    return settings | named


def uv_settings(pip: dict[str, str]) -> dict[str, str]:
    """Return the environment that tells uv the same; pip takes the best version of all its sources."""
    told = {
        "UV_DEFAULT_INDEX": pip.get("index-url", ""),
        "UV_INDEX": pip.get("extra-index-url", ""),
        "UV_FIND_LINKS": ",".join(pip.get("find-links", "").split()),
        "SSL_CERT_FILE": pip.get("cert", ""),
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_LINK_MODE": "copy",
    }
    return {key: value for key, value in told.items() if value and key not in os.environ}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
