"""Prints what setup.py requires, one package a line, for an image to install before the sources are there.

Usage, beside setup.py: requirements.py --suites=atari,minatar [--accelerator=cpu|gpu]

Without --accelerator these are the actor's packages, otherwise the learner's. Needs nothing but setuptools.
"""

import argparse
import runpy
from unittest import mock

import setuptools

# What the extra [learner] has as "tensorflow". Without CUDA it is half as large, but has no wheels for ARM.
TENSORFLOW = {
    "cpu": ("tensorflow-cpu{}; platform_machine == 'x86_64'", "tensorflow{}; platform_machine != 'x86_64'"),
    "gpu": ("tensorflow[and-cuda]{}",),
}
# Suites that need no package, and football, which is built from its sources.
WITHOUT_EXTRA = {"catch", "football", "recall"}


def main() -> None:
    """Prints the requirements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--suites", default="", help="extras of setup.py, separated by commas")
    parser.add_argument("--accelerator", choices=TENSORFLOW, help="the learner's packages, for this")
    args = parser.parse_args()

    with mock.patch.object(setuptools, "setup") as setup:
        runpy.run_path("setup.py")
    lines, extras = (setup.call_args.kwargs[name] for name in ("install_requires", "extras_require"))
    suites = {name for name in args.suites.split(",") if name} - WITHOUT_EXTRA
    if unknown := sorted(suites - set(extras)):
        parser.error(f"setup.py has no extra {unknown[0]!r} for --suites={args.suites}; take it out.")

    lines = [*lines, *(line for suite in sorted(suites) for line in extras[suite])]
    for line in extras["learner"] if args.accelerator else ():
        version = line.removeprefix("tensorflow")
        is_tensorflow = version.startswith(">")
        lines += [form.format(version) for form in TENSORFLOW[args.accelerator]] if is_tensorflow else [line]
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
