"""Prints the requirements in pyproject.toml, one package per line: installed before the sources are copied.

Usage, in the directory of pyproject.toml:
  requirements.py --suites=atari,minatar [--accelerator=cpu|gpu]
  requirements.py --only=tensorboard

With --accelerator these are the learner's packages, otherwise the actor's; with --only, just that package of
the learner's. Needs only the standard library.
"""

import argparse
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

# The extra of pyproject.toml for each accelerator. On CPUs tensorflow-cpu replaces tensorflow: without
# CUDA it is half as large, but it has no wheels for ARM.
EXTRAS = {"cpu": "learner", "gpu": "gpu"}
CPU = ("tensorflow-cpu{}; platform_machine == 'x86_64'", "tensorflow{}; platform_machine != 'x86_64'")
# Suites that need no package, and football, which is built from its sources.
WITHOUT_EXTRA = {"catch", "football", "recall"}


def expand(lines: Sequence[str], extras: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The lines, with those of its extras in the place of each `seed_rl[...]`."""
    for line in lines:
        if own := re.fullmatch(r"seed_rl\[(.+)\]", line):
            for name in own[1].split(","):
                yield from expand(extras[name], extras)
        else:
            yield line


def main() -> None:
    """Prints the requirements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--suites", default="", help="extras of pyproject.toml, separated by commas")
    parser.add_argument("--accelerator", choices=EXTRAS, help="print the learner's packages for this device")
    parser.add_argument("--only", help="print only this package of the learner's")
    args = parser.parse_args()

    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines, extras = project["dependencies"], project["optional-dependencies"]
    if args.only:
        print(*(line for line in extras["learner"] if re.match(rf"{args.only}\b(?!-)", line)), sep="\n")
        return
    suites = {name for name in args.suites.split(",") if name} - WITHOUT_EXTRA
    if unknown := sorted(suites - set(extras)):
        parser.error(f"pyproject.toml has no extra {unknown[0]!r} for --suites={args.suites}; take it out.")

    chosen = [*sorted(suites), *([EXTRAS[args.accelerator]] if args.accelerator else [])]
    for line in expand([*lines, *(f"seed_rl[{name}]" for name in chosen)], extras):
        version = line.removeprefix("tensorflow")
        replaced = args.accelerator == "cpu" and version.startswith(">")
        print(*([form.format(version) for form in CPU] if replaced else [line]), sep="\n")


if __name__ == "__main__":
    main()
