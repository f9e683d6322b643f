"""What is inside ddprun, as a bill of materials (CycloneDX), by what `ddprun --version` says of it."""

import json
import re

LICENCES = {"Boost": "BSL-1.0", "CLI11": "BSD-3-Clause", "fmt": "MIT", "elfutils": "LGPL-3.0-or-later OR GPL-2.0-or-later", "libsodium": "ISC", "spdlog": "MIT", "toml++": "MIT",
            "zlib": "Zlib", "libstdc++": "GPL-3.0-or-later WITH GCC-exception-3.1"}
IN_LIBRARY = ("Boost", "fmt", "libsodium", "libstdc++")  # of the collectives alone


def _component(kind, name, version, licence):
    reference = f"pkg:generic/{name.lower().replace('+', '%2B')}@{version}"
    said = {"licenses": [{"expression": licence}]} if licence else {}
    return {"type": kind, "bom-ref": reference, "name": name, "version": version, "purl": reference, **said}


def bill(said, name, only=None):
    """The text of the file for the package `name`, of what the program has `said`; `only` names the libraries that this one has."""
    version, inside = re.match(r"\S+ (\S+)\nwith ([^;]+)", said).groups()
    parts = [part.rsplit(" ", 1) for part in inside.split(", ")]
    components = [_component("library", part, of, LICENCES.get(part)) for part, of in parts if only is None or part in only]
    about = _component("application", name, version, "Apache-2.0")
    links = [{"ref": about["bom-ref"], "dependsOn": [one["bom-ref"] for one in components]}]
    return json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": about},
                       "components": components, "dependencies": links}, indent=1) + "\n"
