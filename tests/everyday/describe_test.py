#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completions and man pages tell every command and every option that --help tells, and shells that are there take them. Every --help has
an example and no control character; messages have colour on a terminal only, and not where NO_COLOR is set.

    python3 tests/everyday/describe_test.py BUILD_BIN
"""
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys


def on_terminal(command, **environment):
    """What the command writes where its standard error is a terminal."""
    ours, terminal = pty.openpty()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=terminal,
                               env={"PATH": os.environ["PATH"], "TERM": "xterm", **environment})
    os.close(terminal)
    written = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the terminal's other end is closed
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    process.wait()
    return written.decode()


def check_colour(build_bin):
    command = [build_bin / "rlxc", "verify", "missing.plan"]
    red = "\033[1;31merror\033[0m: "
    if red not in on_terminal(command):
        sys.exit(f"no colour on a terminal: {on_terminal(command)!r}")
    piped = subprocess.run(command, capture_output=True, text=True).stderr
    for text in (on_terminal(command, NO_COLOR="1"), on_terminal(command, TERM="dumb"), piped):
        if "\033" in text or "error: " not in text:
            sys.exit(f"colour where none was wanted: {text!r}")


def main():
    build_bin = pathlib.Path(sys.argv[1]).resolve()

    def say(*arguments):
        result = subprocess.run([build_bin / arguments[0], *arguments[1:]], capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"{' '.join(arguments)}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
        return result.stdout

    count = 0
    for program in ("rlxc", "rlxrun"):
        help_text = say(program, "--help")
        listed = help_text.partition("Subcommands:\n")[2].partition("\n\n")[0]
        commands = re.findall(r"^  ([a-z][a-z-]*)", listed, re.MULTILINE)
        options = set()
        for words in [[], *([command] for command in commands)]:
            told = say(program, *words, "--help")
            if re.search(r"[^\n\x20-\x7e]", told) or "Example" not in told:
                sys.exit(f"{program} {' '.join(words)} --help has no example, or characters that no terminal shows: {told!r}")
            options |= set(re.findall(r"^  (?:-\w,)?--([a-z][a-z-]*)", told, re.MULTILINE))
        if len(options) < 20 or (program == "rlxc") != (len(commands) > 10):
            sys.exit(f"{program}: --help is not read right: {sorted(options)}, {commands}")
        for shell, mark in (("bash", "--{}"), ("zsh", "--{}"), ("fish", "-l {}")):
            text = say(program, "--completion", shell)
            missing = [name for name in options if mark.format(name) not in text] + [name for name in commands if name not in text]
            if missing:
                sys.exit(f"{program} --completion {shell} lacks {missing}")
            if shutil.which(shell) and subprocess.run([shell, "-n"], input=text, text=True).returncode != 0:
                sys.exit(f"{shell} does not take the completions of {program}")
            count += 1
        page = say(program, "--man").replace("\\-", "-")
        missing = [name for name in options if f"--{name}" not in page] + [name for name in commands if f".SS {program} {name}" not in page]
        if missing or not page.startswith(f".TH {program.upper()} 1\n"):
            sys.exit(f"{program} --man lacks {missing}")
        if subprocess.run([build_bin / program, "--completion", "csh"], capture_output=True).returncode != 1:
            sys.exit(f"{program} --completion csh is not refused")
    check_colour(build_bin)
    completed = subprocess.run(
        ["bash", "-c", 'source /dev/stdin; COMP_WORDS=(rlxc inspect --me); COMP_CWORD=2; _rlxc; echo "${COMPREPLY[*]}"'],
        input=say("rlxc", "--completion", "bash"), capture_output=True, text=True).stdout.strip()
    if completed != "--memory":
        sys.exit(f"bash completes `rlxc inspect --me` to {completed!r}")
    print(f"describe: {count} completions and 2 man pages tell all that --help tells")


if __name__ == "__main__":
    main()
