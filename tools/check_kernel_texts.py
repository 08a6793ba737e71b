#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that kernels are written once: both dialects have the same few files, which exist nowhere else, and the text of both languages
has no words of one language or of one dialect, no more choices between targets than the table allows, and no reduction of a group in an
argument of a macro that chooses, no division of signed 64-bit sizes.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = ROOT / "shaders"
DIALECTS = {"Vulkan": ROOT / "shaders" / "vulkan" / "lib", "CUDA": ROOT / "cuda_kernels" / "lib"}
MOST_DIALECT_FILES = 8

# Where text of both languages asks for the target, by a macro that both dialects define as 0 or 1: (file, macro) -> how often at most.
CHOICES = {
    # Without correctly rounded division and fma, which no Vulkan driver promises, both are made of integers and error-free sums.
    ("lib/scalar.inc", "RLX_EXACT_DIV_AND_FMA"): 3,
    # gelu by the target's own 2^x and 1 / x: Vulkan promises too little of its own.
    ("lib/math.inc", "RLX_HAS_APPROXIMATIONS"): 1,
}
# Words that one dialect alone has, as only one side of a choice uses them.
BEHIND_CHOICES = {"RLX_NATIVE_QUOTIENT", "rlx_approximate_exp2", "rlx_approximate_reciprocal"}

# Names by which a preprocessor line would ask for the target itself.
TARGETS = re.compile(r"\b(RLX_CUDA|RLX_VULKAN|VULKAN|__CUDA_ARCH__|__CUDACC__|__CUDACC_RTC__|__cplusplus|GL_\w+)\b")
WORDS = {
    "GLSL": re.compile(r"\b(uint|[ud]?vec[234]|ivec[234]|inout|layout|buffer_reference|gl_\w+|subgroup[A-Z]\w*|floatBitsToUint|uintBitsToFloat)\b"),
    "CUDA": re.compile(r"\b(__\w+|asm|template|typename|auto|static_cast|reinterpret_cast|threadIdx|blockIdx|unsigned|long|nullptr)\b"),
}


def code_of(path):
    return re.sub(r"//[^\n]*", "", path.read_text())


def flags_of(folder):
    text = "".join(code_of(path) for path in sorted(folder.glob("*.inc")))
    return set(re.findall(r"^#define (\w+) [01]$", text, re.MULTILINE))


def words_of(text):
    return set(re.findall(r"\b(?:rlx|RLX)_\w+", text))


def defined_in(text):
    """Macros and functions of a text."""
    return set(re.findall(r"#define (\w+)", text)) | set(re.findall(r"^\S[^#\n(]* (\w+)\(", text, re.MULTILINE))


def one_sided_words(shared):
    """Word -> the only dialect that knows it, of words that shared text does not define."""
    texts = {name: "".join(code_of(path) for path in sorted(folder.glob("*.inc"))) for name, folder in DIALECTS.items()}
    known = defined_in("".join(map(code_of, shared))) | BEHIND_CHOICES
    return {
        word: name
        for name, other in (("Vulkan", "CUDA"), ("CUDA", "Vulkan"))
        for word in defined_in(texts[name]) - words_of(texts[other]) - known
    }


def dialect_faults():
    files = {name: {path.name for path in folder.glob("*.inc")} for name, folder in DIALECTS.items()}
    for name, other in (("Vulkan", "CUDA"), ("CUDA", "Vulkan")):
        for file in sorted(files[name] - files[other]):
            yield f"{file}: the dialect of {name} has it, that of {other} has not"
        for file in sorted(files[name]):
            if (SHARED / "lib" / file).exists():
                yield f"{file}: stands in shaders/lib and in the dialect of {name}"
    if len(files["Vulkan"]) > MOST_DIALECT_FILES:
        yield f"a dialect has {len(files['Vulkan'])} files, at most {MOST_DIALECT_FILES} are wanted"


def text_faults(path, flags, one_sided):
    name = path.relative_to(SHARED).as_posix()
    counts = {}
    code = code_of(path)
    for word in sorted(words_of(code) & one_sided.keys()):
        yield f"{name}: only the dialect of {one_sided[word]} has \"{word}\""
    for line in code.split("\n"):
        if re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b", line):
            if TARGETS.search(line):
                yield f"{name}: asks for the target: {line.strip()}"
            for flag in flags.intersection(re.findall(r"\w+", line)):
                counts[flag] = counts.get(flag, 0) + 1
        # NVIDIA's Vulkan driver 580 gives 1 for a / b % 2 of signed 64-bit numbers where a < b is a size read at run time.
        if re.search(r"[/%] \(*rlx_i64\(", line):
            yield f"{name}: divides signed 64-bit numbers, wanted unsigned or 32-bit ones: {line.strip()}"
        for language, words in WORDS.items():
            for word in words.findall(line):
                yield f"{name}: \"{word}\" is a word of {language} alone"
    # Reductions and scans of a group, which all of its threads must call: a macro with a choice leaves its argument out for some of them.
    choosing = "|".join(re.findall(r"^#define (\w+)\([^)]*\).*\?", code, re.MULTILINE)) or "$^"
    for group in re.findall(r"^RLX_GROUP_(?:REDUCE|SCAN)\((\w+)", code, re.MULTILINE):
        for macro in re.findall(rf"\b({choosing})\((?:[^()]*,)?\s*{group}\(", code):
            yield f"{name}: {group} is called in an argument of {macro}, which chooses, so not by every thread"
    for flag, count in counts.items():
        most = CHOICES.get((name, flag), 0)
        if count > most:
            yield f"{name}: asks {count} times for {flag}, at most {most} are allowed"


def main():
    flags = set.intersection(*(flags_of(folder) for folder in DIALECTS.values()))
    texts = sorted(SHARED.glob("*.kernel")) + sorted((SHARED / "lib").glob("*.inc"))
    one_sided = one_sided_words(texts)
    faults = list(dialect_faults())
    for path in texts:
        faults += text_faults(path, flags, one_sided)
    print("\n".join(faults) or f"kernel texts: {len(texts)} of both languages, {sum(CHOICES.values())} choices between targets")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
