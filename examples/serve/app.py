# SPDX-License-Identifier: Apache-2.0
"""Plans as a service, by Ray Serve: replicas of rlx.Session, requests gathered into the plans' free dims, chat replies as they come.

    python app.py --digits digits.plan --encoder encoder.plan --chat chat.plan [--device cuda] [--replicas 1:4]

On one machine this starts Ray itself; with --address auto the same command uses the cluster that is there. Routes:

    POST /digits                28 x 28 bytes -> {"digit": 7}
    POST /v1/embeddings         {"input": "text" or ["text", ...]} -> OpenAI's form
    POST /v1/chat/completions   {"messages": [...], "stream": true, ...} -> OpenAI's form, as events where stream is true
    GET  /v1/models, /healthz
"""
import argparse
import asyncio
import json
import logging
import os
import sys
import time
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor

try:
    import numpy as np
    import ray
    from ray import serve
    from ray.exceptions import RayActorError
    from ray.serve import metrics
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
except ImportError as missing:
    sys.exit(f"error: {missing}: this wants pip install 'ray[serve,data]' ./dist/rlx-*.whl")

MOST_ROWS = 32  # of a batch: the maximum of the plans' symbol `batch`
MOST_TOKENS = 256  # of a text that is embedded: the maximum of the encoder's symbol `seq`
ATTEMPTS = 5  # of a request whose replica died
PIXELS = (1, 28, 28)
START_SECONDS = 300  # for all replicas to be there


class Refused(Exception):
    """A request that is wrong: its sentence is the answer, with code 400."""


class Engine:
    """What runs a batch: a session on a thread of its own. After the loss of its device it is unhealthy, and Serve starts another."""

    def __init__(self, plan, device):
        import rlx
        self.session = rlx.Session(plan, device=device)
        self.device_error = rlx.DeviceError
        self.thread = ThreadPoolExecutor(1)
        self.lost = None

    async def run(self, inputs, output):
        return await asyncio.get_running_loop().run_in_executor(self.thread, self._run, inputs, output)

    def _run(self, inputs, output):
        try:
            return self.session.run(inputs, outputs=[output])[output]
        except self.device_error as error:
            self.lost = error
            raise

    def check(self):
        if self.lost is not None:
            raise RuntimeError(f"the device is lost: {self.lost}")


class Onnxruntime(Engine):
    """The same by onnxruntime, for a comparison in the same frame."""

    def __init__(self, model, device):  # noqa: ARG002  on the processor, whatever the plans run on
        import onnxruntime
        self.session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.device_error = ()
        self.thread = ThreadPoolExecutor(1)
        self.lost = None

    def _run(self, inputs, output):
        return self.session.run([output], inputs)[0]


def engine_of(model, device):
    return (Onnxruntime if str(model).endswith(".onnx") else Engine)(model, device)


@serve.deployment(name="digits", max_ongoing_requests=4 * MOST_ROWS, health_check_period_s=2)
class Digits:
    def __init__(self, model, device):
        self.engine = engine_of(model, device)
        self.rows = metrics.Histogram("rlx_digits_batch_rows", description="images of one run", boundaries=[1, 2, 4, 8, 16, 32])

    def check_health(self):
        self.engine.check()

    def process(self):
        """Its number, for who wants to see it die."""
        return os.getpid()

    @serve.batch(max_batch_size=MOST_ROWS, batch_wait_timeout_s=0.005)
    async def read(self, images):
        self.rows.observe(len(images))
        digits = await self.engine.run({"images": np.stack(images)}, "digits")
        return [int(digit) for digit in digits]

    async def __call__(self, image):
        return await self.read(np.frombuffer(image, np.uint8).reshape(PIXELS))


class SentenceEncoder:
    """The encoder of examples/search: texts to rows of length 1. Texts of one number of tokens go together, so that nothing is padded."""

    def __init__(self, plan, device):
        import rlx
        from rlx.language import Tokenizer
        self.tokenizer = Tokenizer(plan)
        self.session = rlx.Session(plan, device=device)
        self.most_rows = self.session.plan.symbols["batch"].maximum

    def embed(self, texts):
        ids = [self.tokenizer.encode(text, most=MOST_TOKENS) for text in texts]
        rows = [None] * len(ids)
        lengths = {}
        for number, tokens in enumerate(ids):
            lengths.setdefault(len(tokens), []).append(number)
        for numbers in lengths.values():
            for begin in range(0, len(numbers), self.most_rows):
                part = numbers[begin:begin + self.most_rows]
                tokens = np.array([ids[number] for number in part], np.int64)
                found = self.session.run({"input_ids": tokens, "attention_mask": np.ones_like(tokens)})["sentence_embedding"]
                for number, row in zip(part, found):
                    rows[number] = row
        return rows, sum(map(len, ids))


@serve.deployment(name="encoder", max_ongoing_requests=4 * MOST_ROWS, health_check_period_s=2)
class Encoder:
    def __init__(self, plan, device):
        self.encoder = SentenceEncoder(plan, device)
        self.thread = ThreadPoolExecutor(1)

    @serve.batch(max_batch_size=MOST_ROWS, batch_wait_timeout_s=0.005)
    async def embed(self, texts):
        rows, _ = await asyncio.get_running_loop().run_in_executor(self.thread, self.encoder.embed, texts)
        return [row.tolist() for row in rows]

    async def __call__(self, text):
        return await self.embed(text)


@serve.deployment(name="chat", max_ongoing_requests=16, health_check_period_s=2)
class Chat:
    """One conversation at a time on a replica; what its prompt has in common with the one before is not computed again."""

    def __init__(self, plan, device):
        from rlx.language import LanguageModel
        self.model = LanguageModel(plan, device)
        self.turn = asyncio.Lock()
        self.thread = ThreadPoolExecutor(1)
        self.tokens = metrics.Counter("rlx_chat_tokens", description="tokens of replies")

    async def __call__(self, messages, options):
        """Pieces of the reply, then why it ended with the numbers of tokens."""
        loop = asyncio.get_running_loop()
        async with self.turn:
            pieces = self.model.stream(messages, **options)
            while True:
                piece = await loop.run_in_executor(self.thread, next, pieces, None)
                if piece is None:
                    break
                yield piece
            self.tokens.inc(max(self.model.reply_tokens, 1))
            yield {"finish_reason": self.model.finish_reason, "prompt_tokens": self.model.prompt_tokens,
                   "completion_tokens": self.model.reply_tokens}


def chat_request(body):
    """Messages and options of OpenAI's form; what has no counterpart is refused by name."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(
            isinstance(each, dict) and isinstance(each.get("role"), str) and isinstance(each.get("content"), str) for each in messages):
        raise Refused("messages must be a list of {role, content}, both texts")
    taken = {"max_tokens": "max_tokens", "max_completion_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p",
             "seed": "seed", "top_k": "top_k", "min_p": "min_p"}
    ignored = {"messages", "model", "stream", "stream_options", "user"}
    unknown = sorted(name for name, value in body.items() if name not in taken and name not in ignored and value is not None)
    if unknown and not (unknown == ["n"] and body["n"] == 1):
        raise Refused(f"not offered: {', '.join(unknown)}")
    options = {"temperature": 1.0}  # as of the form
    for name, value in body.items():
        if name in taken and value is not None:
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
                raise Refused(f"{name} must be a number of 0 or more")
            if name == "top_p" and not 0 < value <= 1:
                raise Refused("top_p must be above 0 and 1 at most; temperature 0 takes the likeliest token")
            options[taken[name]] = float(value) if name in ("temperature", "top_p", "min_p") else int(value)
    if options["temperature"] > 0:
        options.setdefault("seed", uuid.uuid4().int & (2**63 - 1))
    return messages, options


@serve.deployment(name="door", max_ongoing_requests=4096)
class Door:
    """HTTP. A request whose replica dies goes to another one: runs have no effects but their answers."""

    def __init__(self, names, digits=None, encoder=None, chat=None):
        self.names, self.digits, self.encoder, self.chat = names, digits, encoder, chat
        self.retries = metrics.Counter("rlx_retries", description="requests that went to another replica")

    async def ask(self, handle, *arguments):
        for attempt in range(ATTEMPTS):
            try:
                return await handle.remote(*arguments)
            except RayActorError:
                if attempt + 1 == ATTEMPTS:
                    raise
                self.retries.inc()
                await asyncio.sleep(0.05 * 2**attempt)

    async def __call__(self, request: Request):
        routes = {("GET", "/healthz"): self.health, ("GET", "/v1/models"): self.models}
        if self.digits is not None:
            routes["POST", "/digits"] = self.read_digit
        if self.encoder is not None:
            routes["POST", "/v1/embeddings"] = self.embed
        if self.chat is not None:
            routes["POST", "/v1/chat/completions"] = self.complete
        route = routes.get((request.method, request.url.path))
        if route is None:
            return failure(404, f"no route {request.method} {request.url.path}; there are {sorted(' '.join(each) for each in routes)}")
        try:
            return await route(request)
        except Refused as error:
            return failure(400, str(error))

    async def health(self, _):
        return Response("ok\n", media_type="text/plain")

    async def models(self, _):
        return JSONResponse({"object": "list", "data": [{"id": name, "object": "model", "owned_by": "rlx"} for name in self.names]})

    async def read_digit(self, request):
        image = await request.body()
        if len(image) != 28 * 28:
            raise Refused(f"an image has 784 bytes, got {len(image)}")
        return JSONResponse({"digit": await self.ask(self.digits, image)})

    async def embed(self, request):
        body = await json_body(request)
        texts = [body.get("input")] if isinstance(body.get("input"), str) else body.get("input")
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise Refused("input must be a text or a list of texts")
        rows = await asyncio.gather(*(self.ask(self.encoder, text) for text in texts))
        return JSONResponse({"object": "list", "model": "encoder",
                             "data": [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]})

    async def complete(self, request):
        body = await json_body(request)
        messages, options = chat_request(body)
        head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": "chat"}
        if body.get("stream"):
            usage = bool((body.get("stream_options") or {}).get("include_usage"))
            return StreamingResponse(self.events(messages, options, head, usage), media_type="text/event-stream")
        text, end = "", {}
        try:
            async for piece in self.pieces(messages, options):
                if isinstance(piece, str):
                    text += piece
                else:
                    end = piece
        except ray.exceptions.RayTaskError as error:
            raise Refused(str(error.cause)) from None  # the model's own sentence: a prompt that is too long, say
        return JSONResponse({**head, "object": "chat.completion", "usage": usage_of(end), "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": end["finish_reason"]}]})

    async def pieces(self, messages, options):
        """Begins anew on another replica where one dies before its first piece; later that is an error of the stream."""
        for attempt in range(ATTEMPTS):
            begun = False
            try:
                async for piece in self.chat.options(stream=True).remote(messages, options):
                    begun = True
                    yield piece
                return
            except RayActorError:
                if begun or attempt + 1 == ATTEMPTS:
                    raise
                self.retries.inc()
                await asyncio.sleep(0.05 * 2**attempt)

    async def events(self, messages, options, head, with_usage):
        def event(delta, reason=None, **more):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            return f"data: {json.dumps({**head, 'object': 'chat.completion.chunk', 'choices': [choice], **more})}\n\n"

        yield event({"role": "assistant", "content": ""})
        try:
            async for piece in self.pieces(messages, options):
                if isinstance(piece, str):
                    yield event({"content": piece})
                else:
                    yield event({}, piece["finish_reason"])
                    if with_usage:
                        rest = {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage_of(piece)}
                        yield f"data: {json.dumps(rest)}\n\n"
        except ray.exceptions.RayError as error:
            yield f"data: {json.dumps({'error': {'message': str(getattr(error, 'cause', error)), 'type': 'server_error'}})}\n\n"
        yield "data: [DONE]\n\n"


def usage_of(end):
    counts = {name: end[name] for name in ("prompt_tokens", "completion_tokens")}
    return {**counts, "total_tokens": sum(counts.values())}


async def json_body(request):
    try:
        body = json.loads(await request.body())
    except ValueError as error:
        raise Refused(f"the body is no JSON: {error}") from None
    if not isinstance(body, dict):
        raise Refused("the body must be a JSON object")
    return body


def failure(code, message):
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error"}}, code)


def scaled(deployment, options):
    """As many replicas as the load wants within --replicas, each with its share of a GPU where the device is one."""
    least, most = options.replicas
    actor = {"num_cpus": options.cpu_share}
    if options.device.startswith("cuda"):
        actor["num_gpus"] = options.gpu_share
    if least == most:
        return deployment.options(num_replicas=least, ray_actor_options=actor)
    target = max(1, deployment.max_ongoing_requests // 4)
    up, down = options.scale_seconds
    # What is judged is no older than the delays: Serve's own 30 s would hide a load that has just begun.
    return deployment.options(ray_actor_options=actor, autoscaling_config={
        "min_replicas": least, "max_replicas": most, "target_ongoing_requests": target, "upscale_delay_s": up, "downscale_delay_s": down,
        "metrics_interval_s": min(10.0, max(0.5, up / 2)), "look_back_period_s": min(30.0, max(2.0, up))})


def build(options):
    """The application: what of it the options name a plan for."""
    parts = {}
    if options.digits:
        parts["digits"] = scaled(Digits, options).bind(options.digits, options.device)
    if options.encoder:
        parts["encoder"] = scaled(Encoder, options).bind(options.encoder, options.device)
    if options.chat:
        parts["chat"] = scaled(Chat, options).bind(options.chat, options.device)
    return Door.options(ray_actor_options={"num_cpus": options.cpu_share}).bind(sorted(parts), **parts)


def replicas(text):
    least, _, most = text.partition(":")
    pair = (int(least), int(most or least))
    if not 1 <= pair[0] <= pair[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is not N or LEAST:MOST")
    return pair


def seconds(text):
    up, _, down = text.partition(":")
    pair = (float(up), float(down))
    if min(pair) < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not UP:DOWN")
    return pair


def parser():
    options = argparse.ArgumentParser(description="Plans as a service, by Ray Serve")
    options.add_argument("--digits", help="plan of examples/mnist, with the batch free; or, for a comparison, a model for onnxruntime")
    options.add_argument("--encoder", help="plan of examples/search, with batch and seq free and its tokenizer in it")
    options.add_argument("--chat", help="plan of a language model")
    options.add_argument("--device", default="vulkan", help="as of rlx.Session; on CUDA each replica has its share of a GPU")
    options.add_argument("--replicas", type=replicas, default=(1, 1), help="N, or LEAST:MOST for as many as the load wants")
    options.add_argument("--scale-seconds", type=seconds, default=(30, 600), metavar="UP:DOWN",
                         help="how long there must be too much or too little load before replicas come or go")
    options.add_argument("--gpu-share", type=float, default=1.0, help="0.5: two replicas on each GPU")
    options.add_argument("--cpu-share", type=float, default=0.1, help="cores that a replica reserves")
    options.add_argument("--port", type=int, default=8000)
    options.add_argument("--metrics-port", type=int, default=8080, help="where Prometheus finds /metrics of this machine")
    options.add_argument("--address", help="of a cluster: auto, or HOST:PORT; without, Ray is started here")
    return options


def start(options):
    """Ray, Serve and the application; returns when it answers."""
    if options.address:
        ray.init(address=options.address, log_to_driver=False)
    else:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING,
                 _metrics_export_port=options.metrics_port, object_store_memory=128 << 20)
    try:
        serve.start(http_options={"host": "127.0.0.1" if not options.address else "0.0.0.0", "port": options.port})
    except TimeoutError:
        pass  # a busy machine: Serve goes on starting, and what counts is the answer below
    serve.run(build(options), name="rlx", route_prefix="/")
    end = time.monotonic() + START_SECONDS
    while not answers(options.port):
        if time.monotonic() > end:
            raise SystemExit(f"app.py: no answer from http://127.0.0.1:{options.port}/healthz after {START_SECONDS} s")
        time.sleep(0.2)


def answers(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as answer:
            return answer.status == 200
    except OSError:
        return False


def main():
    options = parser().parse_args()
    if not (options.digits or options.encoder or options.chat):
        raise SystemExit("app.py: name a plan: --digits, --encoder or --chat")
    start(options)
    print(f"serving at http://127.0.0.1:{options.port}, metrics at http://127.0.0.1:{options.metrics_port}/metrics", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        serve.shutdown()


if __name__ == "__main__":
    main()
