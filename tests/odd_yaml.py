"""YAML files that somebody may have written by mistake, or to do harm."""

# YAML that is valid, or nearly so, but breaks programs that trust it.
ODD = {
    "deep list": "[" * 3000,
    "deep mapping": "{a: " * 3000,
    "deep blocks": "".join(f"{' ' * n}a:\n" for n in range(600)),
    "billion laughs": "a0: &a0 [x, x]\n"
    + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)),
    "endless": "&a [*a]",
    "endless mapping": "environment: &a {a: *a}\n",
    "huge number": f"environment: {10**400}\n",
    "no date": "environment: 2020-13-45\n",
    "no number": "environment: !!int x\n",
    "no time": "environment: !!timestamp x\n",
    "code": "environment: !!python/object/apply:os.system [true]\n",
    "key": "? [a]\n: b\n",
    "control": 'environment: "\x01"\n',
    "zeros": "\0" * 100,
    "tab": "a:\n\t- b\n",
}
