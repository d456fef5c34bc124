"""Prints the requirements in setup.py, one package per line, to install them before the sources are copied.

Usage, in the directory of setup.py:
  requirements.py --suites=atari,minatar [--accelerator=cpu|gpu]
  requirements.py --only=tensorboard

With --accelerator these are the learner's packages, otherwise the actor's; with --only, just that package of
the learner's. Needs only setuptools.
"""

import argparse
import re
import runpy
from unittest import mock

import setuptools

# The extra of setup.py for each accelerator. On CPUs tensorflow-cpu replaces tensorflow: without
# CUDA it is half as large, but it has no wheels for ARM.
EXTRAS = {"cpu": "learner", "gpu": "gpu"}
CPU = ("tensorflow-cpu{}; platform_machine == 'x86_64'", "tensorflow{}; platform_machine != 'x86_64'")
# Suites that need no package, and football, which is built from its sources.
WITHOUT_EXTRA = {"catch", "football", "recall"}


def main() -> None:
    """Prints the requirements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--suites", default="", help="extras of setup.py, separated by commas")
    parser.add_argument("--accelerator", choices=EXTRAS, help="print the learner's packages for this device")
    parser.add_argument("--only", help="print only this package of the learner's")
    args = parser.parse_args()

    with mock.patch.object(setuptools, "setup") as setup:
        runpy.run_path("setup.py")
    lines, extras = (setup.call_args.kwargs[name] for name in ("install_requires", "extras_require"))
    if args.only:
        print(*(line for line in extras["learner"] if re.match(rf"{args.only}\b(?!-)", line)), sep="\n")
        return
    suites = {name for name in args.suites.split(",") if name} - WITHOUT_EXTRA
    if unknown := sorted(suites - set(extras)):
        parser.error(f"setup.py has no extra {unknown[0]!r} for --suites={args.suites}; take it out.")

    lines = [*lines, *(line for suite in sorted(suites) for line in extras[suite])]
    for line in extras[EXTRAS[args.accelerator]] if args.accelerator else ():
        version = line.removeprefix("tensorflow")
        lines += [form.format(version) for form in CPU] if version.startswith(">") else [line]
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
