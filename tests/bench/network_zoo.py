# SPDX-License-Identifier: Apache-2.0
"""The networks of networks.py: PyTorch modules with seeded weights, from torchvision, timm, transformers, torchaudio, and written
here where those have none. A network whose package is missing is told as such by whoever makes it.
"""
import dataclasses
import typing

import torch
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass(frozen=True)
class Network:
    name: str
    domain: str
    dtype: str  # f16, bf16, f32
    make: typing.Callable  # () -> module
    inputs: typing.Callable  # () -> tuple of tensors

    def built(self):
        """(module in evaluation mode, inputs), the same at each call."""
        torch.manual_seed(20261126)
        module = self.make().eval().requires_grad_(False)
        seed_weights(module)
        return module, self.inputs()


def seed_weights(module):
    """Weights under which a signal neither dies out nor overflows on its way: libraries leave heads at zero, and norms over batches
    at statistics that no batch has."""
    for name, tensor in module.named_parameters():
        if tensor.dim() > 1:
            gain = 1.5 if tensor.dim() > 2 else 1.0
            torch.nn.init.normal_(tensor, std=(gain / tensor[0].numel()) ** 0.5)
        elif name.endswith("weight"):
            torch.nn.init.uniform_(tensor, 0.6, 1.2)
        else:
            torch.nn.init.normal_(tensor, std=0.1)
    for name, tensor in module.named_buffers():
        if name.endswith("running_var"):
            torch.nn.init.uniform_(tensor, 0.5, 1.5)
        elif name.endswith("running_mean"):
            torch.nn.init.normal_(tensor, std=0.1)


class First(nn.Module):
    """A module of transformers with its first result alone, and without a cache."""

    def __init__(self, inner, key=0, names=None, **fixed):
        super().__init__()
        self.inner, self.key, self.names, self.fixed = inner, key, names, fixed

    def forward(self, *inputs):
        if self.names:
            result = self.inner(**dict(zip(self.names, inputs)), return_dict=True, **self.fixed)
        else:
            result = self.inner(*inputs, return_dict=True, **self.fixed)
        return result[self.key]


def images(batch, size, channels=3):
    return lambda: (torch.randn(batch, channels, size, size),)


def tokens(batch, sequence, vocabulary):
    return lambda: (torch.randint(0, vocabulary, (batch, sequence)),)


def vision(name, batch, size=224, dtype="f16", **options):
    def make():
        import torchvision
        return torchvision.models.get_model(name, weights=None, **options)
    return Network(f"{name}-{dtype}-b{batch}", "vision", dtype, make, images(batch, size))


def timm_vision(name, batch, size=224, dtype="f16"):
    def make():
        import timm
        return timm.create_model(name, pretrained=False, exportable=True)
    return Network(f"{name}-{dtype}-b{batch}", "vision", dtype, make, images(batch, size))


def segmentation(name, batch, size):
    class Out(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x)["out"]

    def make():
        import torchvision
        return Out(torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=21))
    return Network(f"{name}-f16-b{batch}", "segmentation", "f16", make, images(batch, size))


def hugging_face(name, domain, dtype, config, model, inputs, key=0, names=None, settings=None, fixed=None):
    """`model` of transformers with the defaults of `config`, but for `settings`."""
    def make():
        import transformers
        made = getattr(transformers, config)(**(settings or {}))
        return First(getattr(transformers, model)(made), key, names, **(fixed or {}))
    return Network(name, domain, dtype, make, inputs)


# ---- written here

class ResidualBlock(nn.Module):
    """Of diffusion networks: group norm, SiLU, convolution, the time added, and the same again."""

    def __init__(self, channels_in, channels_out, time):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, channels_in), nn.GroupNorm(32, channels_out)
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1)
        self.time = nn.Linear(time, channels_out)
        self.skip = nn.Conv2d(channels_in, channels_out, 1) if channels_in != channels_out else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.skip(x)


class PixelAttention(nn.Module):
    def __init__(self, channels, heads, context=None):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(32, channels)
        self.q = nn.Linear(channels, channels, bias=False)
        self.kv = nn.Linear(context or channels, 2 * channels, bias=False)
        self.o = nn.Linear(channels, channels)

    def forward(self, x, context=None):
        b, c, h, w = x.shape
        rows = self.norm(x).flatten(2).transpose(1, 2)
        source = rows if context is None else context
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv(source).chunk(2, -1)
        attended = F.scaled_dot_product_attention(split(self.q(rows)), split(k), split(v))
        rows = self.o(attended.transpose(1, 2).flatten(2))
        return x + rows.transpose(1, 2).reshape(b, c, h, w)


class DiffusionUNet(nn.Module):
    """Two levels of a latent diffusion network with self and cross attention."""

    def __init__(self, channels=(192, 384), time=768, context=512, heads=8):
        super().__init__()
        a, b = channels
        self.begin = nn.Conv2d(4, a, 3, padding=1)
        self.down1, self.down_attend = ResidualBlock(a, a, time), PixelAttention(a, heads)
        self.shrink = nn.Conv2d(a, b, 3, stride=2, padding=1)
        self.middle1, self.middle2 = ResidualBlock(b, b, time), ResidualBlock(b, b, time)
        self.attend, self.cross = PixelAttention(b, heads), PixelAttention(b, heads, context)
        self.grow = nn.Conv2d(b, a, 3, padding=1)
        self.up = ResidualBlock(2 * a, a, time)
        self.norm, self.end = nn.GroupNorm(32, a), nn.Conv2d(a, 4, 3, padding=1)

    def forward(self, x, time, context):
        x = self.begin(x)
        skip = x = self.down_attend(self.down1(x, time))
        x = self.middle1(self.shrink(x), time)
        x = self.middle2(self.cross(self.attend(x), context), time)
        x = self.grow(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        x = self.up(torch.cat((x, skip), 1), time)
        return self.end(F.silu(self.norm(x)))


class ImageDecoder(nn.Module):
    """From 4 x 32 x 32 latents to an image of 256 x 256, as autoencoders of diffusion networks do."""

    def __init__(self, channels=(256, 128, 64)):
        super().__init__()
        self.begin = nn.Conv2d(4, channels[0], 3, padding=1)
        self.attend = PixelAttention(channels[0], 1)
        self.stages = nn.ModuleList()
        before = channels[0]
        for count in channels:
            self.stages.append(nn.Sequential(nn.GroupNorm(32, before), nn.SiLU(), nn.Conv2d(before, count, 3, padding=1),
                                             nn.Upsample(scale_factor=2.0, mode="nearest"), nn.Conv2d(count, count, 3, padding=1)))
            before = count
        self.norm, self.end = nn.GroupNorm(32, before), nn.Conv2d(before, 3, 3, padding=1)

    def forward(self, x):
        x = self.attend(self.begin(x))
        for stage in self.stages:
            x = stage(x)
        return self.end(F.silu(self.norm(x)))


class SuperResolution(nn.Module):
    """EDSR: residual blocks without norms, pixels shuffled at the end."""

    def __init__(self, channels=64, blocks=16, scale=4):
        super().__init__()
        self.begin, self.end = nn.Conv2d(3, channels, 3, padding=1), nn.Conv2d(channels, 3, 3, padding=1)
        block = lambda: nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(),
                                      nn.Conv2d(channels, channels, 3, padding=1))
        self.blocks = nn.ModuleList(block() for _ in range(blocks))
        grow = [nn.Conv2d(channels, 4 * channels, 3, padding=1), nn.PixelShuffle(2)]
        self.grow = nn.Sequential(*grow, nn.Conv2d(channels, 4 * channels, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x):
        first = x = self.begin(x)
        for block in self.blocks:
            x = x + block(x)
        return self.end(self.grow(x + first))


class Ranking(nn.Module):
    """DLRM: dense features, 26 tables, products of all pairs."""

    def __init__(self, tables=26, rows=20000, wide=64):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, wide) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, wide), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(pairs + wide, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))
        left, right = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("pairs", left * (tables + 1) + right)

    def forward(self, dense, ids):
        x = self.bottom(dense)
        rows = torch.stack([x, *(table(ids[:, i]) for i, table in enumerate(self.tables))], 1)
        products = torch.bmm(rows, rows.transpose(1, 2)).flatten(1)[:, self.pairs]
        return torch.sigmoid(self.top(torch.cat((x, products), 1)))


class GraphAttention(nn.Module):
    """Two layers of graph attention over a dense adjacency matrix, nodes of 256 features."""

    def __init__(self, wide=256, heads=4):
        super().__init__()
        self.heads = heads
        self.layers = nn.ModuleList(nn.Linear(wide, wide) for _ in range(2))
        self.sources = nn.ParameterList(nn.Parameter(torch.randn(heads, wide // heads) / 8) for _ in range(2))
        self.targets = nn.ParameterList(nn.Parameter(torch.randn(heads, wide // heads) / 8) for _ in range(2))

    def forward(self, x, adjacency):
        for layer, source, target in zip(self.layers, self.sources, self.targets):
            h = layer(x).unflatten(-1, (self.heads, -1)).transpose(0, 1)
            scores = F.leaky_relu((h * source[:, None]).sum(-1)[:, :, None] + (h * target[:, None]).sum(-1)[:, None], 0.2)
            weights = torch.softmax(scores.masked_fill(adjacency == 0, -1e4), -1)
            x = F.elu((weights @ h).transpose(0, 1).flatten(1))
        return x


class MessagePassing(nn.Module):
    """Three layers of a graph network over a list of edges: gather, linear, sums by index."""

    def __init__(self, wide=128):
        super().__init__()
        self.messages = nn.ModuleList(nn.Linear(2 * wide, wide) for _ in range(3))
        self.updates = nn.ModuleList(nn.Linear(2 * wide, wide) for _ in range(3))

    def forward(self, x, edges):
        for message, update in zip(self.messages, self.updates):
            sent = F.relu(message(torch.cat((x[edges[0]], x[edges[1]]), -1)))
            sums = torch.zeros_like(x).index_add(0, edges[1], sent)
            x = x + F.relu(update(torch.cat((x, sums), -1)))
        return x


class TemporalConvolutions(nn.Module):
    """Dilated causal 1-d convolutions with gates, as WaveNet has them."""

    def __init__(self, channels=128, layers=10):
        super().__init__()
        self.begin = nn.Conv1d(1, channels, 1)
        self.gated = nn.ModuleList(nn.Conv1d(channels, 2 * channels, 2, dilation=1 << (i % 10)) for i in range(layers))
        self.mixed = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(layers))
        self.end = nn.Conv1d(channels, 256, 1)

    def forward(self, x):
        x, total = self.begin(x), 0
        for gated, mixed in zip(self.gated, self.mixed):
            a, b = gated(F.pad(x, (gated.dilation[0], 0))).chunk(2, 1)
            h = mixed(torch.tanh(a) * torch.sigmoid(b))
            x, total = x + h, total + h
        return self.end(F.relu(total))


class Vocoder(nn.Module):
    """HiFi-GAN's generator: transposed convolutions and dilated residual blocks."""

    def __init__(self, channels=256):
        super().__init__()
        self.begin = nn.Conv1d(80, channels, 7, padding=3)
        self.up, self.blocks = nn.ModuleList(), nn.ModuleList()
        for rate, kernel in ((8, 16), (8, 16), (2, 4), (2, 4)):
            self.up.append(nn.ConvTranspose1d(channels, channels // 2, kernel, rate, (kernel - rate) // 2))
            channels //= 2
            self.blocks.append(nn.ModuleList(nn.Conv1d(channels, channels, 3, padding=d, dilation=d) for d in (1, 3, 5)))
        self.end = nn.Conv1d(channels, 1, 7, padding=3)

    def forward(self, x):
        x = self.begin(x)
        for up, block in zip(self.up, self.blocks):
            x = up(F.leaky_relu(x, 0.1))
            for conv in block:
                x = x + conv(F.leaky_relu(x, 0.1))
        return torch.tanh(self.end(F.leaky_relu(x)))


class Recurrent(nn.Module):
    def __init__(self, kind, wide, layers, both):
        super().__init__()
        self.inner = kind(wide, wide, layers, batch_first=True, bidirectional=both)
        self.end = nn.Linear((2 if both else 1) * wide, 64)

    def forward(self, x):
        return self.end(self.inner(x)[0])


class UNet(nn.Module):
    """Of pixels or of voxels: levels of two convolutions with norms, transposed convolutions on the way back."""

    def __init__(self, dims, channels_in, classes, levels, norm, channels=32):
        super().__init__()
        conv, transposed = getattr(nn, f"Conv{dims}d"), getattr(nn, f"ConvTranspose{dims}d")
        self.pool = getattr(F, f"max_pool{dims}d")
        wide = [channels << level for level in range(levels)]

        def block(a, b):
            return nn.Sequential(*(part for c in (a, b) for part in (conv(c, b, 3, padding=1, bias=False), norm(b), nn.LeakyReLU(0.01))))

        self.down = nn.ModuleList(block(a, b) for a, b in zip([channels_in, *wide], wide))
        self.up = nn.ModuleList(transposed(b, a, 2, 2) for a, b in zip(wide, wide[1:]))
        self.join = nn.ModuleList(block(2 * a, a) for a in wide[:-1])
        self.end = conv(channels, classes, 1)

    def forward(self, x):
        kept = []
        for block in self.down:
            x = block(self.pool(x, 2) if kept else x)
            kept.append(x)
        for up, join, before in zip(self.up[::-1], self.join[::-1], kept[-2::-1]):
            x = join(torch.cat((up(x), before), 1))
        return self.end(x)


class Translator(nn.Module):
    """nn.Transformer with a causal mask as a tensor."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(8000, 512)
        self.inner = nn.Transformer(512, 8, 6, 6, 2048, batch_first=True, norm_first=True)

    def forward(self, source, target):
        size = target.shape[1]
        mask = torch.full((size, size), float("-inf"), dtype=self.words.weight.dtype, device=target.device).triu(1)
        return self.inner(self.words(source), self.words(target), tgt_mask=mask)


class RadianceField(nn.Module):
    """NeRF's network over encoded points."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear({0: 63, 4: 256 + 63}.get(i, 256), 256) for i in range(8))
        self.end = nn.Linear(256, 4)

    def forward(self, x):
        angles = x[:, :, None] * 2.0 ** torch.arange(10, device=x.device, dtype=x.dtype)
        encoded = torch.cat((x, torch.sin(angles).flatten(1), torch.cos(angles).flatten(1)), -1)
        h = encoded
        for i, layer in enumerate(self.layers):
            h = F.relu(layer(torch.cat((h, encoded), -1) if i == 4 else h))
        return self.end(h)


class Separator(nn.Module):
    """Conv-TasNet: blocks of dilated depthwise convolutions between norms over channels and time, masks, two sources."""

    def __init__(self, filters=512, wide=128, hidden=512):
        super().__init__()
        self.encode = nn.Conv1d(1, filters, 16, 8, bias=False)
        self.begin = nn.Sequential(nn.GroupNorm(1, filters), nn.Conv1d(filters, wide, 1))
        self.blocks = nn.ModuleList(nn.Sequential(
            nn.Conv1d(wide, hidden, 1), nn.PReLU(), nn.GroupNorm(1, hidden),
            nn.Conv1d(hidden, hidden, 3, padding=1 << i % 8, dilation=1 << i % 8, groups=hidden), nn.PReLU(), nn.GroupNorm(1, hidden),
            nn.Conv1d(hidden, wide, 1)) for i in range(16))
        self.masks = nn.Conv1d(wide, 2 * filters, 1)
        self.decode = nn.ConvTranspose1d(filters, 1, 16, 8, bias=False)

    def forward(self, x):
        encoded = F.relu(self.encode(x))
        y = self.begin(encoded)
        for block in self.blocks:
            y = y + block(y)
        masked = torch.sigmoid(self.masks(y)).unflatten(1, (2, -1)) * encoded[:, None]
        return self.decode(masked.flatten(0, 1))


def video(name, batch, frames, size):
    def make():
        import torchvision
        return torchvision.models.get_model(name, weights=None)
    return Network(f"{name}-f16-b{batch}", "video", "f16", make, lambda: (torch.randn(batch, 3, frames, size, size),))


def detection_transformer():
    import transformers
    backbone = transformers.ResNetConfig(out_features=["stage4"])
    config = transformers.DetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone)
    return First(transformers.DetrForObjectDetection(config), "logits")


def diffusion_inputs():
    return (torch.randn(2, 4, 64, 64), torch.randn(2, 768), torch.randn(2, 77, 512))


def speech(samples):
    return lambda: (torch.randn(1, samples),)


QWEN = {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 12, "num_attention_heads": 14, "num_key_value_heads": 2,
        "vocab_size": 32000}
SMALL_LLAMA = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 12, "num_attention_heads": 16,
               "num_key_value_heads": 4, "vocab_size": 32000}
EIGHT_LAYERS = {"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 4,
                "intermediate_size": 2816, "vocab_size": 32000}
NO_CACHE = {"use_cache": False}

NETWORKS = (
    vision("resnet18", 1), vision("resnet50", 8), vision("resnext50_32x4d", 8), vision("densenet121", 8), vision("vgg16", 1),
    vision("shufflenet_v2_x1_0", 32), vision("mobilenet_v2", 32), vision("mobilenet_v3_large", 32), vision("efficientnet_b0", 32),
    vision("regnet_y_1_6gf", 16), vision("convnext_tiny", 8), vision("swin_v2_t", 8, 256), vision("vit_b_16", 8),
    timm_vision("mobilevit_s", 8, 256), timm_vision("mixer_b16_224", 8), timm_vision("ghostnet_100", 16),
    timm_vision("beit_base_patch16_224", 4), timm_vision("poolformer_s12", 8), timm_vision("vit_small_patch14_dinov2", 4, 518),
    segmentation("deeplabv3_mobilenet_v3_large", 4, 520), segmentation("fcn_resnet50", 2, 520),
    hugging_face("segformer-b0-f16-b4", "segmentation", "f16", "SegformerConfig", "SegformerForSemanticSegmentation",
                 images(4, 512), "logits"),
    hugging_face("yolos-small-f16-b1", "detection", "f16", "YolosConfig", "YolosForObjectDetection", images(1, 512), "logits",
                 settings={"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536, "image_size": [512, 864]}),
    hugging_face("bert-base-f16-b1", "language", "f16", "BertConfig", "BertModel", tokens(1, 128, 30000)),
    hugging_face("distilbert-f16-b8", "language", "f16", "DistilBertConfig", "DistilBertModel", tokens(8, 128, 30000)),
    hugging_face("albert-base-f16-b8", "language", "f16", "AlbertConfig", "AlbertModel", tokens(8, 128, 30000),
                 settings={"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}),
    hugging_face("deberta-v2-f16-b4", "language", "f16", "DebertaV2Config", "DebertaV2Model", tokens(4, 128, 30000),
                 settings={"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 6, "intermediate_size": 3072,
                           "relative_attention": True, "position_buckets": 256, "pos_att_type": ["p2c", "c2p"]}),
    hugging_face("gpt2-f16-s512", "language", "f16", "GPT2Config", "GPT2LMHeadModel", tokens(1, 512, 50000), "logits",
                 fixed=NO_CACHE),
    hugging_face("opt-125m-f16-s256", "language", "f16", "OPTConfig", "OPTForCausalLM", tokens(1, 256, 50000), "logits",
                 fixed=NO_CACHE),
    hugging_face("gpt-neox-f16-s256", "language", "f16", "GPTNeoXConfig", "GPTNeoXForCausalLM", tokens(1, 256, 50000), "logits",
                 settings={"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
                 fixed=NO_CACHE),
    hugging_face("llama-bf16-s512", "language", "bf16", "LlamaConfig", "LlamaForCausalLM", tokens(1, 512, 32000), "logits",
                 settings=SMALL_LLAMA, fixed=NO_CACHE),
    hugging_face("qwen2-bf16-s128", "language", "bf16", "Qwen2Config", "Qwen2ForCausalLM", tokens(1, 128, 32000), "logits",
                 settings=QWEN, fixed=NO_CACHE),
    hugging_face("t5-encoder-f32-b4", "language", "f32", "T5Config", "T5EncoderModel", tokens(4, 128, 32000)),
    hugging_face("bart-base-bf16-b2", "language", "bf16", "BartConfig", "BartModel",
                 lambda: (torch.randint(0, 50000, (2, 128)), torch.randint(0, 50000, (2, 32))),
                 names=("input_ids", "decoder_input_ids"), fixed=NO_CACHE,
                 settings={"d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 12,
                           "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072}),
    hugging_face("clip-vision-f16-b8", "vision", "f16", "CLIPVisionConfig", "CLIPVisionModel", images(8, 224)),
    hugging_face("wav2vec2-f16-4s", "speech", "f16", "Wav2Vec2Config", "Wav2Vec2Model", speech(64000)),
    hugging_face("whisper-encoder-f16", "speech", "f16", "WhisperConfig", "WhisperModel",
                 lambda: (torch.randn(1, 80, 3000), torch.randint(0, 50000, (1, 32))),
                 names=("input_features", "decoder_input_ids"), fixed=NO_CACHE,
                 settings={"d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8,
                           "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048}),
    hugging_face("conformer-f16-4s", "speech", "f16", "Wav2Vec2ConformerConfig", "Wav2Vec2ConformerModel", speech(64000),
                 settings={"hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8, "intermediate_size": 2048}),
    Network("wavenet-f16", "speech", "f16", TemporalConvolutions, lambda: (torch.randn(1, 1, 16000),)),
    Network("vocoder-f16", "speech", "f16", Vocoder, lambda: (torch.randn(1, 80, 200),)),
    Network("diffusion-unet-f16-b2", "diffusion", "f16", DiffusionUNet, diffusion_inputs),
    Network("image-decoder-f16", "diffusion", "f16", ImageDecoder, images(1, 32, 4)),
    Network("edsr-f16", "image", "f16", SuperResolution, images(1, 180)),
    Network("dlrm-f32-b2048", "recommendation", "f32", Ranking,
            lambda: (torch.randn(2048, 13), torch.randint(0, 20000, (2048, 26)))),
    Network("graph-attention-f32", "graph", "f32", GraphAttention,
            lambda: (torch.randn(2048, 256), (torch.rand(2048, 2048) < 0.01).float())),
    Network("message-passing-f32", "graph", "f32", MessagePassing,
            lambda: (torch.randn(10000, 128), torch.randint(0, 10000, (2, 60000)))),
    vision("resnet101", 16), vision("inception_v3", 8, 299, aux_logits=False, init_weights=False), vision("efficientnet_v2_s", 16, 300),
    vision("swin_b", 4), vision("vit_l_16", 4), vision("resnet18", 8, dtype="f32"), vision("efficientnet_b0", 8, dtype="f32"),
    vision("vit_b_16", 4, dtype="f32"), segmentation("deeplabv3_resnet50", 2, 520),
    *(timm_vision(name, batch) for name, batch in (
        ("hrnet_w18", 8), ("xcit_tiny_12_p16_224", 8), ("edgenext_small", 8), ("eva02_tiny_patch14_224", 8), ("levit_256", 32),
        ("convnextv2_tiny", 8), ("coat_lite_mini", 8), ("resnest50d", 8), ("tf_efficientnetv2_b0", 16), ("mobileone_s1", 16))),
    *(timm_vision(name, batch) for name, batch in (
        ("repvgg_a2", 8), ("tresnet_m", 8), ("dla34", 8), ("cait_xxs24_224", 8), ("twins_svt_small", 8), ("volo_d1_224", 4),
        ("pvt_v2_b1", 8), ("davit_tiny", 8), ("focalnet_tiny_srf", 8), ("efficientformer_l1", 8), ("tiny_vit_11m_224", 8),
        ("gcvit_tiny", 4), ("mambaout_tiny", 8), ("starnet_s1", 8), ("repvit_m1", 8), ("inception_next_tiny", 8), ("hgnetv2_b0", 8),
        ("visformer_small", 8), ("gmlp_s16_224", 8), ("convit_small", 4), ("skresnet34", 8), ("ese_vovnet39b", 8), ("dpn68", 8),
        ("res2net50_26w_4s", 8), ("xception41", 4), ("sequencer2d_s", 4))),
    timm_vision("nfnet_f0", 4, 256), timm_vision("fastvit_t8", 8, 256), timm_vision("botnet26t_256", 8, 256),
    *(video(name, 2, 16, 112) for name in ("r3d_18", "r2plus1d_18", "mc3_18")), video("s3d", 2, 16, 224),
    video("mvit_v2_s", 1, 16, 224), video("swin3d_t", 1, 16, 224),
    Network("unet-f16-b8", "segmentation", "f16", lambda: UNet(2, 3, 1, 5, nn.BatchNorm2d), images(8, 256)),
    Network("unet-f32-b2", "segmentation", "f32", lambda: UNet(2, 3, 1, 5, nn.BatchNorm2d), images(2, 256)),
    Network("unet-volumes-f16", "segmentation", "f16", lambda: UNet(3, 1, 3, 4, lambda c: nn.InstanceNorm3d(c, affine=True)),
            lambda: (torch.randn(1, 1, 64, 96, 96),)),
    Network("detr-f16-b1", "detection", "f16", detection_transformer, images(1, 640)),
    hugging_face("sam-vision-f16", "segmentation", "f16", "SamVisionConfig", "SamVisionModel", images(1, 1024)),
    hugging_face("siglip-vision-f16-b8", "vision", "f16", "SiglipVisionConfig", "SiglipVisionModel", images(8, 224)),
    hugging_face("glpn-f16", "depth", "f16", "GLPNConfig", "GLPNForDepthEstimation", images(1, 480), "predicted_depth"),
    hugging_face("vitdet-f16", "detection", "f16", "VitDetConfig", "VitDetModel", images(1, 512),
                 settings={"image_size": 512, "num_hidden_layers": 6, "window_size": 8, "window_block_indices": [0, 1, 3, 4],
                           "use_relative_position_embeddings": True}),
    hugging_face("dpt-f16-b1", "depth", "f16", "DPTConfig", "DPTForDepthEstimation", images(1, 384), "predicted_depth"),
    hugging_face("swin2sr-f16", "image", "f16", "Swin2SRConfig", "Swin2SRForImageSuperResolution", images(1, 64), "reconstruction"),
    hugging_face("roberta-f16-b4-s512", "language", "f16", "RobertaConfig", "RobertaModel", tokens(4, 512, 30000),
                 settings={"max_position_embeddings": 514}),
    hugging_face("xlm-roberta-f16-b32-s64", "language", "f16", "XLMRobertaConfig", "XLMRobertaModel", tokens(32, 64, 30000)),
    hugging_face("electra-f16-b16", "language", "f16", "ElectraConfig", "ElectraModel", tokens(16, 64, 30000)),
    hugging_face("mpnet-f16-b8", "language", "f16", "MPNetConfig", "MPNetModel", tokens(8, 128, 30000)),
    hugging_face("bert-f32-b4", "language", "f32", "BertConfig", "BertModel", tokens(4, 128, 30000)),
    hugging_face("bloom-f16-s512", "language", "f16", "BloomConfig", "BloomForCausalLM", tokens(1, 512, 50000), "logits",
                 settings={"hidden_size": 1024, "n_layer": 12, "n_head": 16, "vocab_size": 50000}, fixed=NO_CACHE),
    hugging_face("gptj-f16-s256", "language", "f16", "GPTJConfig", "GPTJForCausalLM", tokens(1, 256, 50000), "logits",
                 settings={"n_embd": 1024, "n_layer": 12, "n_head": 16, "rotary_dim": 32}, fixed=NO_CACHE),
    hugging_face("gemma2-bf16-s256", "language", "bf16", "Gemma2Config", "Gemma2ForCausalLM", tokens(1, 256, 30000), "logits",
                 settings={"hidden_size": 1024, "num_hidden_layers": 10, "num_attention_heads": 8, "num_key_value_heads": 4,
                           "head_dim": 128, "intermediate_size": 4096, "vocab_size": 32000}, fixed=NO_CACHE),
    hugging_face("qwen3-bf16-s1024", "language", "bf16", "Qwen3Config", "Qwen3ForCausalLM", tokens(1, 1024, 30000), "logits",
                 settings={"hidden_size": 1024, "num_hidden_layers": 10, "num_attention_heads": 16, "num_key_value_heads": 8,
                           "head_dim": 128, "intermediate_size": 3072, "vocab_size": 32000}, fixed=NO_CACHE),
    hugging_face("modernbert-f16-b4", "language", "f16", "ModernBertConfig", "ModernBertModel", tokens(4, 256, 30000),
                 settings={"num_hidden_layers": 10, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 1152}),
    hugging_face("mobilebert-f16-b4", "language", "f16", "MobileBertConfig", "MobileBertModel", tokens(4, 128, 30000)),
    hugging_face("xlnet-f16-b4", "language", "f16", "XLNetConfig", "XLNetModel", tokens(4, 128, 30000),
                 settings={"d_model": 768, "n_layer": 6, "n_head": 12, "d_inner": 3072}),
    hugging_face("phi-f16-s256", "language", "f16", "PhiConfig", "PhiForCausalLM", tokens(1, 256, 30000), "logits",
                 settings={**EIGHT_LAYERS, "num_key_value_heads": 16}, fixed=NO_CACHE),
    hugging_face("olmo2-bf16-s256", "language", "bf16", "Olmo2Config", "Olmo2ForCausalLM", tokens(1, 256, 30000), "logits",
                 settings=EIGHT_LAYERS, fixed=NO_CACHE),
    hugging_face("gemma3-bf16-s512", "language", "bf16", "Gemma3TextConfig", "Gemma3ForCausalLM", tokens(1, 512, 30000), "logits",
                 settings={**EIGHT_LAYERS, "head_dim": 128, "sliding_window": 128}, fixed=NO_CACHE),
    Network("translator-f16-b8", "language", "f16", Translator,
            lambda: (torch.randint(0, 8000, (8, 64)), torch.randint(0, 8000, (8, 64)))),
    hugging_face("wavlm-f16-4s", "speech", "f16", "WavLMConfig", "WavLMModel", speech(64000)),
    hugging_face("hubert-f16-4s", "speech", "f16", "HubertConfig", "HubertModel", speech(64000)),
    hugging_face("ast-f16-b4", "speech", "f16", "ASTConfig", "ASTModel", lambda: (torch.randn(4, 1024, 128),)),
    Network("separator-f16", "speech", "f16", Separator, lambda: (torch.randn(2, 1, 32000),)),
    hugging_face("patchtst-f32-b32", "series", "f32", "PatchTSTConfig", "PatchTSTModel", lambda: (torch.randn(32, 512, 7),),
                 settings={"num_input_channels": 7, "context_length": 512, "patch_length": 16, "patch_stride": 8, "d_model": 128,
                           "num_hidden_layers": 3}),
    Network("radiance-field-f16", "graphics", "f16", RadianceField, lambda: (torch.randn(65536, 3),)),
    Network("lstm-2x512-f32", "sequence", "f32", lambda: Recurrent(nn.LSTM, 512, 2, False), lambda: (torch.randn(1, 100, 512),)),
    Network("gru-both-2x256-f32-b8", "sequence", "f32", lambda: Recurrent(nn.GRU, 256, 2, True), lambda: (torch.randn(8, 100, 256),)),
)
