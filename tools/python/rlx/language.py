# SPDX-License-Identifier: Apache-2.0
"""Text: language models, plans that rlxc made of a GGUF file or a checkpoint, with their tokenizer and chat template; and the tokenizer of
any plan that carries one (rlx.compile(..., tokenizer="tokenizer.json")).

    from rlx.language import LanguageModel
    model = LanguageModel("chat.plan", device="vulkan")
    for piece in model.stream([{"role": "user", "content": "What is the capital of France?"}], max_tokens=64):
        print(piece, end="", flush=True)
    model.finish_reason               # "stop", or "length"
"""
import os
from typing import Iterator, List, Mapping, Optional, Sequence, Union

from . import _language
from ._errors import ArgumentError
from ._runtime import Plan, _choose_device

Messages = Sequence[Mapping[str, str]]

__all__ = ["LanguageModel", "Tokenizer"]


class Tokenizer:
    """A plan's tokenizer: texts to tokens and back, as Hugging Face's does it. Any number of threads may use one.

        tokenizer = Tokenizer("encoder.plan")
        ids = tokenizer.encode("how do insects communicate?", most=256)

    plan: a path. Raises ArgumentError for a plan without tokenizer.
    """

    def __init__(self, plan: Union[str, os.PathLike]):
        self._core = _language.Tokenizer(os.fspath(plan))
        self.begin: Optional[int] = self._core.begin if self._core.begin >= 0 else None  # the ids; None: the model has none
        self.end: Optional[int] = self._core.end if self._core.end >= 0 else None

    def __len__(self) -> int:
        return self._core.count

    def encode(self, text: str, *, add_special: bool = True, most: Optional[int] = None) -> List[int]:
        """The tokens of a text. add_special: with those that the model wants at its begin and end. Names of control tokens stay text.
        most: more tokens than that are cut off at the end, those of begin and end kept."""
        ids = self._core.encode(text, add_special)
        if most is None or len(ids) <= most:
            return ids
        kept = add_special and self._core.add_end and self.end is not None
        if most < (1 + kept if add_special and self._core.add_begin else max(1, kept)):
            raise ArgumentError(f"most is {most}: no room for the model's own tokens")
        return ids[:most - 1] + [self.end] if kept else ids[:most]

    def decode(self, ids: Sequence[int], *, show_control: bool = False) -> str:
        """The text of tokens, without control tokens unless they are to be shown. What is no UTF-8 becomes U+FFFD."""
        return self._core.decode(list(map(int, ids)), show_control)


class LanguageModel:
    """A language model on a device, whose caches stay from reply to reply: a prompt that begins as the last one did is not read again.

    plan: a path. device: as of rlx.Session. cache: "exact", whole chunks are kept that a prompt would be cut into itself, which changes no
    bit of a reply; "rows", every row that prompts made; "fast", the reply's own rows too. One reply at a time: a second thread is refused
    with StateError. Python's other threads go on while tokens are computed.

    Raises ArgumentError for a plan without tokenizer, for a prompt that the context does not hold, and for messages that the model's
    template refuses.
    """

    def __init__(self, plan: Union[str, os.PathLike], device: Optional[str] = None, *, cache: str = "exact",
                 weights_folder: Union[str, os.PathLike, None] = None):
        if cache not in ("exact", "rows", "fast"):
            raise ArgumentError(f"cache is {cache!r}, wanted 'exact', 'rows' or 'fast'")
        folder = None if weights_folder is None else os.fspath(weights_folder)
        chosen = _choose_device(Plan(plan)) if device is None else device
        self._core = _language.Language(os.fspath(plan), chosen, folder, getattr(_language.Reuse, cache))
        self.device: str = self._core.device
        self.context: int = self._core.context  # tokens of prompt and reply together
        self.finish_reason: Optional[str] = None  # of the last reply
        self.prompt_tokens = self.kept_tokens = self.reply_tokens = 0  # of the last reply

    def chat_ids(self, messages: Messages) -> List[int]:
        """The tokens of a conversation, by the model's template, up to where the assistant's reply begins."""
        return self._core.chat_ids([(each["role"], each["content"]) for each in messages])

    def encode(self, text: str) -> List[int]:
        """The tokens of a text, with those that the model wants at its begin and end; names of control tokens stay text."""
        return self._core.encode(text)

    def stream(self, messages: Union[Messages, Sequence[int]], *, max_tokens: int = 256, temperature: float = 0.0, top_k: int = 0,
               top_p: float = 1.0, min_p: float = 0.0, seed: int = 0) -> Iterator[str]:
        """The reply to a conversation, or what follows a list of tokens, piece by piece, as each token comes.

        temperature 0: the likeliest token always. finish_reason is afterwards "stop", or "length" where max_tokens or the context ended
        the reply.
        """
        if not 0 < top_p <= 1:
            raise ArgumentError(f"top_p is {top_p}, wanted above 0 and 1 at most; temperature 0 takes the likeliest token")
        ids = list(messages) if messages and isinstance(messages[0], int) else self.chat_ids(messages)
        self.finish_reason, self.reply_tokens = None, 0
        self._core.begin(ids, temperature, top_k, top_p, min_p, seed)
        self.prompt_tokens, self.kept_tokens = len(ids), self._core.kept
        reason = "length"
        # The last token of a reply is not fed again: it may be the first that the context has no row for.
        for _ in range(min(max_tokens, self.context - len(ids) + 1)):
            _, text, is_end = self._core.next()
            if is_end:
                reason = "stop"
                break
            self.reply_tokens += 1
            if text:
                yield text
        rest = self._core.end()
        if rest:
            yield rest
        self.finish_reason = reason

    def reply(self, messages: Union[Messages, Sequence[int]], **options) -> str:
        """All of stream() in one."""
        return "".join(self.stream(messages, **options))
