"""A third-party package that is installed for one test."""


def install(directory, monkeypatch, group, **entry_points):
    """Puts a distribution with entry points on the path.

    Args:
      directory: the test's temporary directory.
      monkeypatch: pytest's fixture.
      group: the group of the entry points.
      **entry_points: `name="module:attribute"`.
    """
    info = directory / "theirs-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in entry_points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    monkeypatch.syspath_prepend(str(directory))
