# SPDX-License-Identifier: Apache-2.0
"""Models in the styles that people export, small and with random weights, for export_test.py."""
import math

import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional as F
from torch.nn.attention.flex_attention import and_masks, create_block_mask, flex_attention, or_masks


# ---- convolutional networks

class Bottleneck(nn.Module):
    """ResNet's block with a projection where the shape changes."""

    def __init__(self, wide_in, wide, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(wide_in, wide, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(wide)
        self.conv2 = nn.Conv2d(wide, wide, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(wide)
        self.conv3 = nn.Conv2d(wide, 4 * wide, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * wide)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or wide_in != 4 * wide:
            self.downsample = nn.Sequential(nn.Conv2d(wide_in, 4 * wide, 1, stride, bias=False), nn.BatchNorm2d(4 * wide))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += identity
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
                                  nn.MaxPool2d(3, 2, 1))
        self.layers = nn.Sequential(Bottleneck(16, 8, 1), Bottleneck(32, 16, 2), Bottleneck(64, 16, 1))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        return self.fc(torch.flatten(self.avgpool(self.layers(self.stem(x))), 1))


class SqueezeExcitation(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(wide, wide // 4, 1), nn.Conv2d(wide // 4, wide, 1)

    def forward(self, x):
        return F.hardsigmoid(self.fc2(F.relu(self.fc1(F.adaptive_avg_pool2d(x, 1))))) * x


class InvertedResidual(nn.Module):
    def __init__(self, wide_in, wide, wide_out, stride, activation):
        super().__init__()
        self.use_residual = stride == 1 and wide_in == wide_out
        self.block = nn.Sequential(
            nn.Conv2d(wide_in, wide, 1, bias=False), nn.BatchNorm2d(wide, eps=1e-3), activation(inplace=True),
            nn.Conv2d(wide, wide, 5, stride, 2, groups=wide, bias=False), nn.BatchNorm2d(wide, eps=1e-3), SqueezeExcitation(wide),
            activation(inplace=True), nn.Conv2d(wide, wide_out, 1, bias=False), nn.BatchNorm2d(wide_out))

    def forward(self, x):
        return x + self.block(x) if self.use_residual else self.block(x)


class MobileNet(nn.Module):
    """MobileNetV2's ReLU6 and V3's hard-swish and squeeze-excitation, with dropout that evaluation leaves out."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish(),
                                      InvertedResidual(16, 32, 24, 2, nn.ReLU6), InvertedResidual(24, 48, 24, 1, nn.Hardswish))
        self.classifier = nn.Sequential(nn.Linear(24, 40), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(40, 10))

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3])).softmax(-1)


def double_conv(wide_in, wide_out):
    return nn.Sequential(nn.Conv2d(wide_in, wide_out, 3, padding="same"), nn.GroupNorm(4, wide_out), nn.SiLU(),
                         nn.Conv2d(wide_out, wide_out, 3, padding=1, padding_mode="reflect"),
                         nn.InstanceNorm2d(wide_out, affine=True),
                         nn.LeakyReLU(0.1))


class UNet(nn.Module):
    """Down by pooling and by stride, up by bilinear resizing, by nearest resizing and by a transposed convolution."""

    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.down3, self.bottom = (double_conv(*pair) for pair in ((3, 8), (8, 16), (16, 16), (16, 32)))
        self.stride = nn.Conv2d(16, 16, 2, 2)
        self.up1 = nn.ConvTranspose2d(32, 16, 3, 2, 1, output_padding=1)
        self.up2 = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), nn.Conv2d(32, 16, 1))
        self.join1, self.join2, self.join3 = double_conv(32, 32), double_conv(32, 16), double_conv(24, 8)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, image):
        a = self.down1(image)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.down3(self.stride(b))
        d = self.bottom(F.avg_pool2d(c, 2))
        y = self.join1(torch.cat([self.up1(d), c], 1))
        y = self.join2(torch.cat([self.up2(y), b], dim=1))
        y = self.join3(torch.cat([F.interpolate(y, size=a.shape[2:], mode="nearest"), a], 1))
        logits = self.head(y)
        return {"logits": logits, "labels": logits.argmax(1)}


# ---- transformers

class Encoder(nn.Module):
    """Token and position embeddings, PyTorch's own encoder layers with a padding mask, and a pooled head."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50, 32, padding_idx=0), nn.Embedding(40, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.pre = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
        self.head = nn.Linear(32, 5)

    def forward(self, ids, mask):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = self.pre(self.layers(x, src_key_padding_mask=mask == 0))
        weights = mask.unsqueeze(-1).to(x.dtype)
        pooled = (x * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return self.head(torch.tanh(pooled)), F.normalize(pooled, dim=-1)


class Cross(nn.Module):
    """nn.MultiheadAttention that returns its weights, over another sequence, in [S, B, E] order."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(24, 3, kdim=16, vdim=20)
        self.norm = nn.LayerNorm(24)

    def forward(self, query, memory, values):
        y, weights = self.attend(query, memory, values)
        return self.norm(y + query), weights


class Decoder(nn.Module):
    """nn.TransformerDecoder, which looks whether its mask is causal, and a policy whose distribution checks its arguments."""

    def __init__(self):
        super().__init__()
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(24, 3, 32, norm_first=True), 2, nn.LayerNorm(24))
        self.spread = nn.Parameter(torch.full((24,), 0.5))

    def forward(self, target, memory, padding):
        mask = nn.Transformer.generate_square_subsequent_mask(len(target), dtype=target.dtype)
        y = self.decoder(target, memory, tgt_mask=mask, memory_key_padding_mask=padding)
        policy = torch.distributions.Normal(y, self.spread.exp())
        return policy.log_prob(target).sum(-1), policy.entropy()


class RmsNorm(nn.Module):
    """As model code writes it, in f32 whatever the type."""

    def __init__(self, wide):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(wide))

    def forward(self, x):
        wide = x.float() if x.dtype != torch.float64 else x
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class LlamaLayer(nn.Module):
    def __init__(self, wide, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, wide // heads
        self.q_proj = nn.Linear(wide, wide, bias=False)
        self.k_proj = nn.Linear(wide, kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(wide, kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(wide, wide, bias=False)
        self.gate_proj, self.up_proj = nn.Linear(wide, 3 * wide, bias=False), nn.Linear(wide, 3 * wide, bias=False)
        self.down_proj = nn.Linear(3 * wide, wide, bias=False)
        self.input_norm, self.post_norm = RmsNorm(wide), nn.RMSNorm(wide, eps=1e-5)

    def forward(self, x, cos, sin):
        batch, count, wide = x.shape
        h = self.input_norm(x)
        q = self.q_proj(h).view(batch, count, self.heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(h).view(batch, count, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(h).view(batch, count, self.kv_heads, self.head_dim).transpose(1, 2)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o_proj(y.transpose(1, 2).reshape(batch, count, wide))
        h = self.post_norm(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class Llama(nn.Module):
    """Rotary positions, grouped-query attention, SwiGLU, and an output matrix that is the embedding's."""

    def __init__(self, layers=2, wide=64):
        super().__init__()
        self.embed = nn.Embedding(61, wide)
        self.layers = nn.ModuleList(LlamaLayer(wide, 4, 2) for _ in range(layers))
        self.norm = RmsNorm(wide)
        self.lm_head = nn.Linear(wide, 61, bias=False)
        self.lm_head.weight = self.embed.weight
        self.register_buffer("inv_freq", 1 / 10000 ** (torch.arange(0, 16, 2) / 16), persistent=False)

    def forward(self, ids):
        angles = torch.arange(ids.shape[1], device=ids.device)[:, None].to(self.inv_freq.dtype) * self.inv_freq[None]
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, cos.to(x.dtype), sin.to(x.dtype))
        return self.lm_head(self.norm(x))[:, -1]


class Masked(nn.Module):
    """A causal mask by hand, an additive and a boolean mask, a window, and attention without heads."""

    def forward(self, q, k, v):
        count = q.shape[2]
        rows = torch.arange(count, device=q.device)
        causal = rows[:, None] >= rows[None, :]
        window = causal & (rows[:, None] - rows[None, :] < 3)
        bias = torch.zeros(count, count, device=q.device, dtype=q.dtype).masked_fill(~causal, float("-inf"))
        by_hand = ((q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1]) + bias).softmax(-1) @ v
        return (F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=0.3), by_hand,
                F.scaled_dot_product_attention(q, k, v, attn_mask=window),
                F.scaled_dot_product_attention(q[:, 0], k[:, 0], v[:, 0]))


# ---- state

class Counter(nn.Module):
    """A buffer that every run adds to, and one that it writes a row of."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.full((4,), 0.5))
        self.register_buffer("rows", torch.zeros(3, 4))

    def forward(self, x):
        self.total += x.sum(0)
        self.rows[1:2] = x[:1] * 2
        return self.total + self.rows.sum(0)


# ---- control flow

class Branches(nn.Module):
    """A branch that a value decides on, with weights of its own, inside a loop."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, count):
        def goes_on(i, y):
            return i < count

        def body(i, y):
            y = torch.cond(i % 2 == 0, lambda value: self.one(value).relu(), lambda value: torch.tanh(self.two(value)), (y,))
            return i + 1, y

        steps, y = while_loop(goes_on, body, (torch.zeros((), dtype=torch.int64), x))
        return steps, torch.cond(x.sum() > 0, lambda value: value * 2, lambda value: -value, (y,))


class Scanned(nn.Module):
    """A scan whose step reads weights and a tensor that all steps see."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(4, 4))

    def forward(self, h, xs, shift):
        def step(carry, x):
            carry = torch.tanh(carry @ self.weight + x + shift)
            return carry, carry.sum(-1)

        return scan(step, h, xs)


# ---- many operators

class Elementwise(nn.Module):
    def forward(self, x, y):
        p = x.abs() + 0.25
        floats = [torch.exp(x), torch.log(p), torch.expm1(x), torch.log1p(p), torch.sqrt(p), torch.rsqrt(p), p.reciprocal(),
                  torch.sin(x),
                  torch.cos(x), torch.atan(x), torch.atan2(x, y), torch.tanh(x), torch.erf(x), torch.erfc(x), F.gelu(x),
                  F.gelu(x, approximate="tanh"), F.silu(x), F.mish(x), F.softplus(x, beta=2), F.elu(x, 0.7), F.selu(x),
                  F.celu(x, 1.3),
                  F.hardswish(x), F.hardsigmoid(x), F.hardtanh(x, -0.4, 0.6), F.relu6(x), F.leaky_relu(x, 0.2), F.logsigmoid(x),
                  F.softsign(x), F.hardshrink(x, 0.3), F.softshrink(x, 0.3), F.threshold(x, 0.1, 0.0), F.threshold(x, 0.1, 2.0),
                  F.tanhshrink(x), F.glu(torch.cat([x, y], -1)), x.clamp(min=-0.5), x.clamp(-0.5, 0.5), torch.maximum(x, y),
                  torch.minimum(x, y), torch.fmod(x, 0.3), torch.remainder(x, 0.3), x // 0.3,
                  torch.div(x, 0.3, rounding_mode="trunc"),
                  p ** 1.7, p ** y, 2 ** x, x ** 2, 1 - x, 3 / p, torch.lerp(x, y, 0.3), torch.addcmul(x, x, y, value=0.5),
                  torch.where(x > y, x, 0.0), torch.sign(x), torch.floor(x * 3), torch.ceil(x * 3), torch.round(x * 3),
                  torch.trunc(x * 3),
                  torch.nan_to_num(x / (x * 0), 1.0, 2.0, -2.0), torch.rsub(x, y, alpha=2), x.masked_fill(y > 0, 7.0),
                  torch.add(x, y, alpha=-0.5)]
        tests = [x > 0, x <= y, (x > 0) & (y > 0), (x > 0) | (y > 0), (x > 0) ^ (y > 0), ~(x > 0), torch.isnan(x / (x * 0)),
                 torch.isfinite(x), torch.isclose(x, y)]
        return torch.stack(floats), torch.stack(tests)


class Integers(nn.Module):
    """Types that mix as PyTorch's rules have it."""

    def forward(self, a, b, x):
        return (a + b, a * 2 - b, a // 3, a % 3, a / 2, (a & b) | (a ^ 5), ~a, a > b, a.to(torch.uint8), x.to(torch.int32) + a,
                x * a, a.sum(), b.to(torch.bool).any(), a.cumsum(0),
                torch.where(a > 2, a, b), a.to(x.dtype).mean(), F.one_hot(b.long() % 4, 4), a == 3, a.clamp(1, 4),
                torch.full_like(a, 3), a << 2, b.__rshift__(1), torch.bitwise_left_shift(1, b),
                torch._int_mm((a[:, None] * 7 + b).to(torch.int8), (a[:, None] - b[None] * 9).to(torch.int8)),
                (a[:, None] * b) @ (2 ** torch.arange(35, 42)), a @ a, a[:6].view(2, 1, 3) @ (a[:3, None] * 2**33 + b), b.view(1, 7) @ b,
                F.linear(b.view(1, 7), b[:, None] - b), torch.addmm(b, b[:, None], b[None], beta=2, alpha=3))


class Movement(nn.Module):
    def forward(self, x):  # [2, 3, 4, 6]
        y = x.clone()
        y[:, 1] = 5.0
        y[:, :, 1:3] = x[:, :, :2]
        y[..., ::2] *= 2
        a, b = x.split([1, 2], 1)
        first, *_ = x.unbind(1)
        return (y, x.permute(0, 2, 3, 1), x.flatten(1), x[:, -1], x[..., 1:-1:2], x[:, None].expand(2, 5, 3, 4, 6).sum(1), a * b,
                first, x.flip([1, 3]), x.roll(2, 3), x.roll(5), x.repeat(2, 1, 1, 2), x.repeat_interleave(2, dim=2), x.tril(1),
                x.triu(),
                F.pad(x, (1, 2, 0, 3), value=0.5), F.pad(x, (1, 2, 2, 1), mode="reflect"), F.pad(x, (1, 2, 2, 1), mode="replicate"),
                F.pad(x, (1, 2, 2, 1), mode="circular"), F.pixel_shuffle(x.reshape(1, 12, 2, 6), 2), F.pixel_unshuffle(x, 2),
                x.diagonal(0, 2, 3), torch.einsum("bchw,bdhw->bcd", x, x), x.unfold(3, 3, 2), F.unfold(x, (2, 3)),
                torch.meshgrid(x[0, 0, :, 0], x[0, 0, 0], indexing="ij")[0], x.squeeze(0).unsqueeze(-1), x.new_zeros(2, 3),
                x.movedim(1, -1).contiguous().view(2, -1), torch.tensor([1.5, 2.5, 3.5]).view(3, 1, 1) * x)


class Reductions(nn.Module):
    def forward(self, x):  # [2, 3, 4, 6]
        values, indices = x.topk(3, -1)
        ordered, order = x.sort(2, descending=True)
        return (x.sum(), x.mean((1, 3)), x.amax(1, keepdim=True), x.min(), x.max(2)[0], x.max(2)[1], x.min(-1)[1], x.prod(-1),
                x.var(1),
                x.std((2, 3), unbiased=False, keepdim=True), x.logsumexp((1, 2)), x.norm(dim=1), x.norm(1, -1), x.argmax(1),
                x.argmin(),
                x.cumsum(2), x.cumprod(-1), (x > 0).all(1), (x > 0).any(), values, indices, ordered, order, x.argsort(-1),
                x.softmax(1),
                x.log_softmax(-1), F.softmin(x, 0), torch.var_mean(x, 1)[1], F.normalize(x, dim=1),
                F.cosine_similarity(x, x.flip(0), 1),
                x.count_nonzero(1), x.cummax(1)[0], F.mse_loss(x, x * 0.5), x.sort(-1)[0][..., 2])


class Indexing(nn.Module):
    def forward(self, x, rows, grid):  # [5, 4, 3], [2, 3] below 4, [5, 2, 3]
        base = torch.zeros_like(x)
        return (x[rows], x[:, rows], x[rows, rows], x[:, rows[0], rows[0] % 3], x.index_select(1, rows[0]), x.gather(1, grid),
                base.scatter(1, grid, x[:, :2]), base.scatter_add(1, grid, x[:, :2]), base.scatter(1, grid, 2.0),
                base.index_add(0, rows[0], x[:3], alpha=2), base.index_copy(0, torch.tensor([4, 0]), x[:2]),
                base.index_put((torch.tensor([0, 2]), torch.tensor([1, 3])), x[:2, 0]), x.take_along_dim(grid, 1),
                x.scatter_reduce(1, grid, x[:, :2], "amax"), x.index_fill(1, rows[0], 1.5))


class Spectra(nn.Module):
    """Fourier transforms, and complex numbers in between."""
    def forward(self, x, angle):  # [2, 12], [2, 12]
        whole = torch.fft.fft(x)
        plane = torch.fft.rfft2(x[:, None] * angle[..., None], norm="ortho")
        z = torch.view_as_complex(torch.stack([x, angle], -1).reshape(2, 12, 2))
        turned = z * torch.polar(x.abs() + 1, angle)
        framed = torch.stft(x, 6, 3, window=torch.hann_window(6, dtype=x.dtype), return_complex=True, onesided=True)
        return (whole.real, whole.abs(), torch.fft.ifft(z, norm="forward").imag,
                torch.fft.irfft2(plane, s=(12, 12), norm="ortho"),
                torch.fft.irfft(torch.fft.rfft(x), n=9), torch.view_as_real(turned), torch.view_as_real(turned.conj() / (z + 3)),
                (z[:, None] @ z[:, :, None]).angle(), (z - 2 * turned).sum(1).imag, torch.exp(z * 0.3j).real, torch.log(z + 3).imag, framed.abs(),
                torch.istft(framed, 6, 3, window=torch.hann_window(6, dtype=x.dtype)), torch.tanh(z).real, torch.tanh(30 * z).imag,
                torch.view_as_real(torch.sinh(z) + torch.cosh(z)), torch.view_as_real(torch.sin(z) * torch.cos(z)), torch.tan(1j * z).imag,
                F.silu(z).real, torch.sgn(z).imag, torch.rsqrt(z + 3).real, torch.view_as_real(z**3), torch.angle(x))


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.sums, self.means = nn.EmbeddingBag(9, 4, mode="sum"), nn.EmbeddingBag(9, 4, mode="mean")
        self.padded = nn.ModuleList(nn.EmbeddingBag(9, 4, mode=mode, padding_idx=2) for mode in ("sum", "mean", "max"))

    def forward(self, x, edges, words, starts):  # [3, 4], [5] sorted, [3, 5] below 9, [3]: begins of bags
        low, high = torch.tril_indices(3, 4, -1)
        return (torch.bucketize(x, edges), torch.searchsorted(edges, x, right=True), torch.bucketize(x / 0, edges),
                torch.histc(x, 5, -2, 2), x.repeat_interleave(torch.tensor([2, 0, 1]), 0, output_size=3), self.sums(words),
                self.means(words.flatten(), starts),
                *(bags(words.flatten(), starts) for bags in self.padded), self.padded[1](words % 3),
                self.padded[0](words.flatten(), starts, x.flatten().repeat(2)[:15]),
                x[low, high], x.as_strided((3, 3), (3, 1), 2), x.t().as_strided((2, 3), (5, 2), 1),
                x[1:].as_strided((2, 2), (2, 1), 6), torch.nonzero_static(x > 0, size=12),
                torch.nonzero_static(x > 0.5, size=2, fill_value=7))


class Placing(nn.Module):
    def forward(self, x, at, values):  # [4, 5, 3], [3] below 4, [3, 3]
        columns, parts, both = x.clone(), x.clone(), x.clone()
        columns[:, at] = values
        parts[..., at[:1] % 3] += 1.0
        both[at, :, torch.tensor([2, 0, 1])] = values[:, :1]
        rows = at[:, None, None].expand(3, 5, 3)
        reduced = [x.scatter_reduce(0, rows, values[:, None].expand(3, 5, 3), kind, include_self=own)
                   for kind in ("sum", "prod", "mean", "amax", "amin") for own in (True, False)]
        return (columns, parts, both, x[at, :, at % 3], x[:, at, at % 3], x.masked_scatter(x > 0, x.flip(0) * 3),
                x.index_put((at,), values[0], accumulate=True), torch.where(x > 0, x, -1.0), *reduced)


class Bags(nn.Module):
    """Rows of embeddings by bag: of one length, with weights of their own, and between offsets, of which one bag is empty."""

    def __init__(self):
        super().__init__()
        self.kinds = nn.ModuleList(nn.EmbeddingBag(20, 6, mode=mode) for mode in ("sum", "mean", "max"))
        self.padded = nn.EmbeddingBag(20, 6, padding_idx=3)

    def forward(self, ids, factors, offsets):  # [2, 4, 5], [2, 4, 5], [3]
        flat = ids.flatten()
        return (*(kind(ids[:, 1]) for kind in self.kinds), *(kind(flat, offsets) for kind in self.kinds), self.padded(flat, offsets),
                self.kinds[0](ids[:, 2], per_sample_weights=factors[:, 2]),
                self.kinds[0](flat, offsets, per_sample_weights=factors.flatten()))


class Systems(nn.Module):
    def forward(self, a, b, points):  # [2, 4, 4], [2, 4, 3], [5, 3]
        square = a @ a.transpose(1, 2) + 4 * torch.eye(4, dtype=a.dtype)
        lower = torch.linalg.cholesky(square)
        scale, zero = torch.tensor([0.25, 0.5, 0.125]), torch.tensor([0, 3, 1], dtype=torch.int32)
        return (lower, torch.linalg.solve_triangular(lower, b, upper=False), torch.linalg.inv(square), torch.linalg.solve(square, b),
                torch.cholesky_inverse(lower), F.pdist(points), torch.pdist(b[0], math.inf),
                torch.linalg.solve_triangular(b.transpose(1, 2)[:, :, :3], b[:, :3], upper=True, unitriangular=True),
                torch.cdist(points, b[0]), torch.cdist(b, b, p=1), torch.cdist(b, b, p=3),
                torch.fake_quantize_per_tensor_affine(points.float(), 0.25, 3, -8, 7).to(a.dtype),
                torch.fake_quantize_per_channel_affine(points.float(), scale, zero, 1, 0, 15).to(a.dtype))


class OwnWeights(nn.Module):
    """Convolutions whose weights each sample has of its own, as StyleGAN2's and those that mix kernels: the batch counts the groups."""

    def __init__(self):
        super().__init__()
        self.style, self.mix, self.shift = nn.Linear(6, 4), nn.Linear(6, 3), nn.Linear(6, 6)
        self.weight = nn.Parameter(0.3 * torch.randn(5, 4, 3, 3))
        self.kernels = nn.Parameter(0.3 * torch.randn(3, 6, 5, 5))

    def forward(self, x, w):
        batch = x.shape[0]
        weight = self.weight[None] * (self.style(w) + 1)[:, None, :, None, None]
        weight = weight * torch.rsqrt(weight.pow(2).sum((2, 3, 4), keepdim=True) + 1e-8)
        y = F.conv2d(x.reshape(1, -1, *x.shape[2:]), weight.reshape(-1, *weight.shape[2:]), padding=(1, 0), stride=(2, 1), groups=batch)
        y = y.view(batch, -1, *y.shape[2:])
        kernel = (self.mix(w)[:, :, None, None, None] * self.kernels).sum(1)
        z = y.mean(3).reshape(1, -1, y.shape[2])
        z = F.conv1d(z, kernel.reshape(-1, *kernel.shape[2:]), self.shift(w).flatten(), padding=3, dilation=2, groups=batch)
        return y, z.view(batch, -1, z.shape[-1])


class Folded(nn.Module):
    """Operators without a counterpart, of weights alone, and some whose handlers are short."""

    def __init__(self):
        super().__init__()
        self.turn = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="matrix_exp")
        self.mix = nn.Bilinear(4, 3, 5)
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x, y):  # [2, 4], [2, 3]
        square = x.transpose(0, 1) @ x + 2 * torch.eye(4, dtype=x.dtype)
        z = torch.complex(x, x.flip(1))
        return (self.turn(x) * torch.linalg.slogdet(self.weight)[1], self.mix(x, y),
                torch.cholesky_solve(x.transpose(0, 1), torch.linalg.cholesky(square)), F.softplus(x, 2, 0.5), F.rrelu(x),
                z.reciprocal().real, torch.sqrt(z).imag, torch.linalg.vector_norm(x, 3, 1), torch.linalg.vector_norm(y, -math.inf))


class Factors(nn.Module):
    """Determinants, QR and exponentials of matrices, some of them singular or with their rows in another order."""

    def forward(self, a, small, tall):  # [n, 5, 5], [2, 2], [6, 4]
        linalg, order = torch.linalg, torch.eye(5, dtype=a.dtype)[[3, 0, 4, 1, 2]]
        return (linalg.det(a), *linalg.slogdet(a), linalg.det(a * order), *linalg.slogdet(a * order), *linalg.slogdet(a * 0),
                linalg.det(a[:, :2] @ a[:, :, :2]), torch.logdet(small @ small.mT), *linalg.qr(tall), *linalg.qr(tall, mode="complete"),
                *linalg.qr(tall.mT), *linalg.qr(order + 0 * a),
                linalg.qr(a, mode="r")[1], torch.matrix_exp(small), torch.matrix_exp(20 * (a - a.mT)), torch.matrix_exp(0 * a))


class Probability(nn.Module):
    """What distributions compute: functions of the gamma family, of the error function and of Bessel."""

    def forward(self, a, x, p):  # above 0, any, between 0 and 1
        special, own = torch.special, torch.distributions
        own.Distribution.set_default_validate_args(False)
        return (torch.lgamma(3 * x), torch.digamma(a), torch.polygamma(1, a), torch.polygamma(0, a), torch.mvlgamma(a + 2, 3),
                torch.lgamma((9 * p).long()), torch.erfinv(2 * p - 1), torch.erfc(2 * x), torch.log(torch.erfc(a)), special.erfcx(x),
                special.ndtr(3 * x), special.ndtri(p), special.log_ndtr(5 * x), torch.i0(2 * x), special.i0e(9 * x), special.i1(2 * x),
                special.i1e(9 * x), torch.xlogy(x.round(), p), special.xlog1py(x.round(), p),
                special.entr(p - 0.1), torch.sinc(x), torch.logit(p, eps=0.1), own.Beta(a, a + 1).log_prob(p), own.Gamma(a, p).log_prob(a),
                own.Dirichlet(a).entropy(), own.StudentT(a, x, p).log_prob(x), own.Poisson(a).log_prob(a.round()),
                own.NegativeBinomial(a, p).log_prob(a.round()), own.kl_divergence(own.Dirichlet(a), own.Dirichlet(a + 1)),
                own.kl_divergence(own.Beta(a, p), own.Beta(p, a)),
                own.kl_divergence(own.MultivariateNormal(x, scale_tril=torch.diag_embed(a)),
                                  own.MultivariateNormal(x[0], torch.eye(7, dtype=x.dtype))),
                own.Normal(x, a).icdf(p), own.VonMises(x, a).log_prob(p))


class FlexAttention(nn.Module):
    """Masks and scores of many kinds: what attention's operator has, and what it has not."""

    def __init__(self):
        super().__init__()
        self.slopes = nn.Parameter(torch.tensor([0.5, 0.25, 0.125, 0.0625]))
        self.table = nn.Parameter(torch.randn(4, 9))

    def forward(self, q, k, v, document):  # [B, 4, S, 8], [B, 2, S, 8] twice, [B, S]
        queries, keys = q.shape[2], k.shape[2]

        def masked(mask_mod):
            return create_block_mask(mask_mod, None, None, queries, keys, device="cpu")

        def causal(b, h, i, j):
            return i >= j

        def window(b, h, i, j):
            return i - j <= 3

        def alike(b, h, i, j):
            return document[b, i] == document[b, j]

        def alibi(score, b, h, i, j):
            return score + self.slopes[h] * (j - i)

        def capped(score, b, h, i, j):
            return 5.0 * torch.tanh(score * 2 / 5.0) - 0.1 * (i - j).abs()

        def relative(score, b, h, i, j):
            return torch.where(document[b][j] != 0, score / self.slopes[h] + self.table[h][(i - j).clamp(-4, 4) + 4], -math.inf)

        def other(score, b, h, i, j):
            return score * torch.sigmoid(self.table[h, (i - j).clamp(-4, 4) + 4])

        plain = {"enable_gqa": True}
        output, sums = flex_attention(q, k, v, score_mod=capped, block_mask=masked(and_masks(causal, window)), return_lse=True, scale=0.3,
                                      **plain)
        written, its_sums = flex_attention(q, k, v, score_mod=other, block_mask=masked(alike), return_lse=True, **plain)
        return (flex_attention(q, k, v, block_mask=masked(causal), **plain), output, sums, written, its_sums,
                flex_attention(q, k, v, score_mod=alibi, block_mask=masked(and_masks(causal, or_masks(alike, window))), **plain),
                flex_attention(q, k, v, score_mod=relative, **plain), flex_attention(q, k, v, **plain))


class Regions(nn.Module):
    """Operators of torchvision; its package has to be loaded."""
    def forward(self, x, boxes, offset, mask, weight):  # [2, 4, 9, 7], [3, 5], [2, 36, 5, 7], [2, 18, 5, 7], [6, 2, 3, 3]
        ops = torch.ops.torchvision
        return (ops.roi_pool(x, boxes, 0.5, 3, 4)[0], ops.roi_pool(x[:1], boxes * (boxes.new_tensor([0.0, 1, 1, 1, 1])), 1.0, 2, 2)[0],
                ops.roi_align(x, boxes, 0.5, 2, 3, 2, False), ops.roi_align(x, boxes, 0.5, 3, 2, 1, True),
                ops.deform_conv2d(x, weight, offset, mask, x[0, 0, 0, :6], 2, 1, 1, 1, 1, 1, 2, 2, True))


class Statistics(nn.Module):
    def forward(self, x, y):  # [3, 5], [3, 5]
        zeros = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0], dtype=x.dtype)
        less = torch.where(x > y, x, math.nan)
        return (torch.fmax(less, y), torch.fmin(x, less), torch.ldexp(x, (3 * y).round()), torch.round(x, decimals=1),
                torch.round(100 * x, decimals=-1), torch.complex(x, y).conj().imag,
                torch.hypot(x, y), torch.copysign(x, y), torch.copysign(x, zeros), *x.median(1), *x.kthvalue(2, 0, keepdim=True),
                torch.logcumsumexp(x, 1), torch.logcumsumexp(x * 200, 1), x.median(), less.nanmedian(), *less.nanmedian(1, keepdim=True),
                less[:, :1].nanmedian(0).values, torch.cov(x), x[0].cov(correction=0), torch.corrcoef(x.T), torch.corrcoef(y[0]))


class Divisors(nn.Module):
    def forward(self, a, b):  # [5, 4], [4]; the third of the largest numbers takes most divisions
        large = torch.tensor([0, 2**62, 7540113804746346429, -5, 0])
        other = torch.tensor([0, 3 * 2**40, 4660046610375530309, 0, 7])
        small = [torch.gcd(x.to(dtype), y.to(dtype)) for x, y in ((a, b), (b, a)) for dtype in (torch.int32, torch.int16, torch.int8)]
        return (torch.gcd(a, b), torch.gcd(b, a), torch.lcm(a, b), torch.gcd(large, other), torch.lcm(a, 0 * b), *small)


class Renormed(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.bags = nn.Embedding(6, 4, max_norm=1.0), nn.EmbeddingBag(6, 4, max_norm=0.5, norm_type=1)

    def forward(self, ids, weight):  # [2, 3] below 6, [6, 4]
        table = weight * 2
        rows = torch.nn.functional.embedding(ids, table, max_norm=0.7, norm_type=3.0)
        return (self.table(ids), self.bags(ids), rows, table, torch.nn.functional.embedding(ids, 3 * weight, max_norm=0.5, norm_type=math.inf),
                torch.histc(weight, 5), torch.histc(0 * weight + 3, 4))


class RoundedUp(nn.Module):
    def forward(self, x):  # [2, length]
        padded = torch.nn.functional.pad(x, (0, 4 * math.ceil(x.shape[1] / 4) - x.shape[1]))
        return padded.reshape(x.shape[0], -1, 4).sum(-1), x[:, :math.ceil(x.shape[1] / 2)]


class Draws(nn.Module):
    def forward(self, x):  # [2, 3]
        return (torch.rand(400), torch.randn(400), torch.rand_like(x), torch.randint(3, 9, (400,)), torch.randn_like(x) * 0 + x,
                torch.empty(400, dtype=x.dtype).exponential_(2.0))


class Chances(nn.Module):
    def forward(self, p):  # [4, 5000]
        weights = torch.tensor([[1.0, 0.0, 3.0, 4.0], [0.5, 0.5, 0.0, 0.0]])
        return (torch.bernoulli(p), torch.bernoulli(p, 0.25), torch.empty_like(p).bernoulli_(0.75), torch.multinomial(weights, 4000, True),
                torch.multinomial(weights[:1].expand(3000, 4), 2), torch.multinomial(weights[1], 1))


class Recurrent(nn.Module):
    """Two layers, both directions, more than one row: outputs and last states."""
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 8, 2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(16, 5, 2)
        self.projected = nn.LSTM(16, 8, 2, bidirectional=True, proj_size=3)
        self.begun = nn.LSTM(6, 8, bidirectional=True, proj_size=5, batch_first=True, bias=False)

    def forward(self, x):  # [3, 7, 6]
        y, (hidden, cell) = self.lstm(x)
        rows, states = self.projected(y)
        begun, ends = self.begun(x, (y[:2, :3, :5], y[1:, :3, :8]))
        return (y, hidden, cell, *self.gru(y), rows, *states, begun, *ends)


class PlainCache(nn.Module):
    """A cache that is no module beside a module that registers its tensors, as transformers' static cache is."""
    class Cache:
        def __init__(self):
            self.rows, self.count = torch.zeros(8, 4), torch.zeros((), dtype=torch.int64)

    def __init__(self):
        super().__init__()
        self.cache = PlainCache.Cache()
        self.register_buffer("rows", self.cache.rows)
        self.register_buffer("count", self.cache.count)

    def forward(self, x):  # [1, 4]
        self.cache.rows.index_copy_(0, self.cache.count.reshape(1), x)
        self.cache.count.add_(1)
        return self.cache.rows.sum(0)


VOLUME = torch.linspace(-1.3, 1.21, 36).reshape(1, 2, 3, 2, 3)


class Spatial(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1d = nn.Conv1d(4, 6, 3, padding=2, dilation=2, groups=2)
        self.conv3d = nn.Conv3d(1, 2, 3, padding=1)
        self.up1d = nn.ConvTranspose1d(6, 4, 4, stride=2, padding=1)
        self.prelu = nn.PReLU(4)
        self.image = nn.Conv2d(4, 6, 3)
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x, grid):  # [2, 4, 9, 8], [2, 5, 6, 2]
        line = self.norm(self.conv1d(x[:, :, 0]))
        return (self.up1d(line), self.conv3d(x[:, None]), self.prelu(x), F.max_pool1d(line, 3),
                F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
                F.max_pool2d(x, 2, return_indices=True)[1], F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
                F.avg_pool1d(line, 2),
                F.max_pool3d(x[:, None], 2), F.adaptive_avg_pool2d(x, (4, 3)), F.adaptive_max_pool2d(x, (4, 3)),
                F.adaptive_avg_pool2d(x, (None, 2)), F.lp_pool2d(x, 2, 2), F.local_response_norm(x, 3), F.max_pool2d(x[0], 2),
                F.interpolate(x, scale_factor=(1.7, 0.6)), F.interpolate(x, scale_factor=1.7, mode="bilinear"),
                F.interpolate(x, size=(5, 13), mode="bilinear", align_corners=True), F.interpolate(x, size=(5, 13), mode="bicubic"),
                F.interpolate(x, scale_factor=2, mode="nearest-exact"), F.interpolate(line, size=7, mode="linear"),
                F.interpolate(x[:, None], scale_factor=2, mode="trilinear"),
                F.interpolate(x, size=(4, 4), mode="bilinear", antialias=True),
                F.grid_sample(x, grid, align_corners=False),
                F.grid_sample(x, grid, mode="nearest", padding_mode="border", align_corners=True),
                F.grid_sample(x[:, None], VOLUME.to(x.dtype).expand(2, 2, 3, 2, 3), align_corners=False),
                F.grid_sample(x[:, None], VOLUME.to(x.dtype).expand(2, 2, 3, 2, 3), mode="nearest", padding_mode="border",
                              align_corners=True),
                F.grid_sample(x[:, None], VOLUME.to(x.dtype).expand(2, 2, 3, 2, 3), padding_mode="reflection", align_corners=False),
                F.grid_sample(x, grid, mode="bicubic", padding_mode="reflection", align_corners=False),
                F.layer_norm(x, (9, 8)), F.batch_norm(x, None, None, self.prelu.weight, training=True),
                F.conv2d(x, F.batch_norm(self.image.weight.reshape(1, 6, -1), None, None, training=True).reshape(6, 4, 3, 3)),
                x * torch.hann_window(8).to(x.dtype),
                F.fold(F.unfold(x, 3, padding=1), (9, 8), 3, padding=1))


class DynamicImage(nn.Module):
    """Down and up again over an image of any size, so that sizes are expressions."""

    def __init__(self):
        super().__init__()
        self.down, self.up, self.norm = nn.Conv2d(3, 8, 3, 2, 1), nn.ConvTranspose2d(8, 4, 2, 2), nn.BatchNorm2d(8)

    def forward(self, image):
        a = F.relu(self.norm(self.down(image)))
        b = F.max_pool2d(a, 2)
        a = a + F.interpolate(b, size=a.shape[2:], mode="bilinear")
        tokens = a.flatten(2).transpose(1, 2)
        tokens = F.scaled_dot_product_attention(tokens, tokens, tokens)
        y = self.up(tokens.transpose(1, 2).reshape(a.shape))[:, :, :image.shape[2], :image.shape[3]]
        return y.mean((2, 3)), y


class Dynamic(nn.Module):
    """Shapes that depend on dynamic dims in every way that a graph can write."""

    def forward(self, x, y):  # [batch, seq, 8], [batch, 8]
        batch, seq, wide = x.shape
        heads = x.reshape(batch, seq, 2, wide // 2).transpose(1, 2)
        merged = heads.reshape(batch * 2, seq, wide // 2)
        joined = torch.cat([x, y[:, None].expand(batch, seq, wide)], dim=-1)
        mask = torch.ones(seq, seq, device=x.device, dtype=x.dtype).tril()
        mean = x.sum(1) / (2 * seq + 1)
        y = y * batch
        changed = x.clone()
        changed[:, 1:-1] = 0.5
        return (merged.transpose(1, 2) @ merged, joined.flatten(0, 1).sum(-1), mask @ x, x[:, -1], x[:, :seq - 1], mean,
                torch.arange(seq, device=x.device)[None] + torch.zeros(batch, 1, dtype=torch.int64), x.mean(0),
                y.new_ones(batch, 3), changed, F.pad(x, (0, 0, 1, 2)), x.repeat(1, 2, 1)[:, seq + 1:])


class AnyLength(nn.Module):
    """What asks PyTorch for a length as it traces, and gives the same at any."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 6, num_layers=2, batch_first=True)
        self.gru = nn.GRU(8, 5, bidirectional=True, batch_first=True)

    def forward(self, x):  # [batch, seq, 8]
        seq = x.shape[1]
        padded = F.pad(x, (0, 0, 0, -seq % 4))
        return (*self.lstm(x)[0].split(3, 2), self.gru(x)[1], padded, x.roll(seq // 2, 1), F.avg_pool1d(x.transpose(1, 2), 2),
                x / seq ** 0.5, x.roll(-1, 1), x[:, : seq // 2])


class Windows(nn.Module):
    """Attention in windows of five keys, as masks of positions write them: causal, beside each other, and of triangles."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 48)

    def forward(self, x):  # [batch, seq, 8]
        count = x.shape[1]
        q, k, v = (part.unflatten(2, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, 2))
        rows = torch.arange(count, device=x.device)
        apart = rows[:, None] - rows[None, :]
        full = torch.full((count, count), float("-inf"), dtype=x.dtype, device=x.device)
        triangles = torch.ones(count, count, dtype=torch.bool, device=x.device).tril().triu(-4)
        return tuple(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
                     for mask in ((rows <= rows[:, None]) & (rows > rows[:, None] - 5), apart.abs() <= 5, triangles,
                                  full.masked_fill((apart >= 0) & (apart < 5), 0)))


class SpectraOfAnyLength(nn.Module):
    """Fourier transforms along axes of a dynamic size."""

    def forward(self, x):  # [batch, seq]
        seq = x.shape[1]
        half = torch.fft.rfft(x, norm="ortho")
        z = torch.complex(x, x.flip(1))
        framed = torch.stft(x, 6, 2, window=torch.hann_window(6, dtype=x.dtype), return_complex=True)
        return (half.abs(), torch.fft.irfft(half * 2, n=seq), torch.fft.ifft(torch.fft.fft(z) * 1j).real, torch.fft.fft2(z, norm="forward").imag,
                torch.fft.irfft(half, n=seq - 2), torch.view_as_real(torch.fft.fft(x[:, None] * x[..., None], dim=1)), framed.abs())


class PlacesOfAnyLength(nn.Module):
    """What follows from a length alone, and padding up to a multiple, as models write it."""

    def forward(self, x):  # [batch, seq, 4]
        seq = x.shape[1]
        return (torch.linspace(-1, 1, seq)[None, :, None] * x, torch.linspace(0.5, seq - 0.5, seq), torch.linspace(0, 1, steps=seq + 1)[:-1],
                torch.logspace(0, 1, seq), torch.logspace(3, 0, steps=seq, base=2.0), torch.fft.fftfreq(seq)[:, None] * x,
                torch.fft.rfftfreq(seq, 0.5), x / math.sqrt(seq), F.pad(x, (0, 0, 0, (4 - seq % 4) % 4)),
                F.pad(x, (0, 0, (8 - seq % 8) % 8, 0)), F.pad(x, (0, 0, 0, -seq % 4)))


class CutAtAnyLength(nn.Module):
    """Cuts and windows whose strides, or whose number of parts, PyTorch asks of the lengths of the example."""

    def forward(self, x):  # [batch, seq, 8]
        batch, seq, wide = x.shape
        windows = F.pad(x, (0, 0, 0, -seq % 4)).reshape(batch, -1, 4, wide)
        without, given = torch.cat([x, x * 2]).chunk(2)
        former, later = torch.cat([x, x + 1], 1).split(seq, 1)
        begins, _ = torch.cat([x, x + 1], -2).chunk(chunks=2, dim=-2)
        decay = torch.exp(-torch.arange(seq)[:, None] * torch.arange(1, 9) / seq)
        mixed = torch.fft.rfft(x, n=2 * seq, dim=1) * torch.fft.rfft(decay, n=2 * seq, dim=0)
        return (windows.sum(2), without + 7 * (given - without), former * 2 - later, begins, torch.fft.irfft(mixed, n=2 * seq, dim=1)[:, :seq],
                x[:, :seq // 2] * 2, x[:, seq // 2:], x[:, ::2], x[:, 1::2], x[:, -2:], x[:, :2].amax(1))


class Diagonals(nn.Module):
    """Diagonals that are written, and places that strides or flat indices name."""

    def forward(self, x):  # [batch, 5, 6]
        above, below, turned, square = x.clone(), x.clone(), x.clone(), x[:, :, :5].clone()
        torch.diagonal(above, 1, 1, 2).copy_(x[:, 0, :5])
        torch.diagonal(below, -2, 1, 2).mul_(2)
        torch.diagonal(turned, 3, 2, 1).fill_(7)
        square[:, torch.arange(5), torch.arange(5)] = 0
        tall = x[0, :, :2].repeat(2, 1)
        return (above, below, turned, square, x[0].clone().fill_diagonal_(3), tall.clone().fill_diagonal_(4, wrap=True),
                x.put(torch.tensor([0, 7]), x[0, 0, :2] + 3),
                x.put(torch.tensor([[0, 3], [3, 0]]), x[0, :2, :2] + 3, accumulate=True))


class SharedSizes(nn.Module):
    """Two inputs of one free batch and length, and what libraries ask of their sizes."""

    def __init__(self):
        super().__init__()
        self.linear, self.conv = nn.Linear(8, 5), nn.Conv1d(4, 6, 3, padding=1)
        self.turned = nn.Linear(4, 3, dtype=torch.cfloat)

    def forward(self, x, y):  # [batch, seq, 8]
        batch, seq, width = x.shape
        joined = torch.cat([y, x], 1)
        doubled = x.new_zeros(batch, 2 * seq, width)
        doubled[:, 0::2] = x
        doubled[:, 1::2] = y * 2
        places = torch.zeros(seq, width)
        steps = torch.arange(seq).float()[:, None] * torch.tensor([1.0, 0.5, 0.25, 0.125])
        places[:, 0::2], places[:, 1::2] = torch.sin(steps), torch.cos(steps)
        marked = x.clone()
        marked[:, 1::3] += 1
        table = torch.arange(40.0)[None, :, None]
        offset = (40 - seq) // 2
        numbers = torch.complex(x[..., :4], x[..., 4:])
        return (x.repeat_interleave(3, 0, output_size=batch * 3), torch.cdist(x, y), (x + y).transpose(1, 2).reshape(batch, -1).view(
            y.shape[0], width, -1), joined[:, :seq] + x, joined[:, seq:] + x, joined[:, -seq:] + x, doubled, places + x, marked,
            table[:, offset:offset + seq] + y, self.linear(x.flip(1)), self.conv(x.transpose(1, 2).flip(1)[:, :4]), y.flip(1).amax(1),
            (x - steps[:, :1] * 50).logcumsumexp(1), torch.view_as_real(F.linear(numbers, self.turned.weight.to(numbers), self.turned.bias.to(numbers))))


class Chosen(nn.Module):
    """Results that are as long as the data decide, and what goes on behind them."""

    def forward(self, x, boxes, scores):
        mask = x > 0.4
        values, inverse, counts = torch.unique((x * 2).round(), return_inverse=True, return_counts=True)
        rows = torch.unique_consecutive((x[:, :1] > 0).to(torch.int64), dim=0)
        likely = torch.nonzero(scores > 0.3).squeeze(1)
        chosen = [torch.nonzero(mask), x[mask] * 2, torch.masked_select(x, mask[:1]), values, inverse, counts, rows,
                  boxes[likely].sum(1), boxes[likely].sum(0), scores[scores > 0.5].max()]
        try:
            import torchvision
        except ImportError:
            return chosen
        kept = torchvision.ops.nms(boxes[likely], scores[likely], 0.3)
        batched = torchvision.ops.batched_nms(boxes, scores, (scores * 2).to(torch.int64), 0.3)
        pooled = torchvision.ops.roi_align(x[None, None], [boxes[batched]], (2, 2), aligned=True)
        return [*chosen, boxes[likely][kept], torch.cat([boxes[batched], scores[batched][:, None]], 1), pooled.flatten(1)]


class Rows(nn.Module):
    """What detectors do with rows that the data count: the best of them, joined, cut, taken apart; and numbers read from tensors."""

    def forward(self, x, boxes, scores):
        place = torch.where(scores > 0.3)[0]
        again = torch.where(scores > 0.3)[0]
        others = torch.where(scores <= 0.3)[0]
        chosen = boxes[place]
        if chosen.numel() == 0:
            chosen = chosen * 2
        joined = torch.cat([boxes[others], boxes[:2], chosen, boxes[again]])
        best, order = scores[place].topk(min(3, 12))
        left, top, right, bottom = chosen.unbind(1)
        values, _ = scores[place].sort()
        largest = scores.argmax().item()
        assert scores.argmin().item() < 12
        shifted = x + largest * 2
        marked = x.clone()
        marked[:, :2][x[:, :2].sum(1) > 0] = torch.tensor([5.0, 7.0]).to(x)
        return joined, chosen[order], joined[:4], joined[2:], best, left + right, top * bottom, values, shifted, marked


class Edges(nn.Module):
    """What libraries of graph networks do: edges chosen by the data, sums, means and extremes of what they bring to nodes, assignments to
    rows that the data choose; rows that do not count change nothing."""

    def forward(self, x, edges, weights, rows):
        keep = edges[0] != edges[1]
        loops = torch.arange(x.shape[0])
        source, target, weight = edges[0][keep], edges[1][keep], F.leaky_relu(weights[keep])
        joined = torch.cat([source, loops]), torch.cat([target, loops]), torch.cat([weight, torch.ones_like(loops, dtype=weight.dtype)])
        brought = rows[keep] * weight[:, None]
        wide = target[:, None].expand(-1, 3)
        degree = x.new_zeros(x.shape[0]).scatter_add(0, target, weight)
        most = x.new_zeros(x.shape[0], 3).scatter_reduce(0, wide, brought, "amax", include_self=False)
        mean = x.scatter_reduce(0, wide, brought, "mean", include_self=False)
        least = x.index_reduce(0, target, brought, "amin")
        ends = x[source] * 2
        ends[:, 0], ends[:, 1:] = weight, brought[:, 1:]
        least = least.index_add(0, target, ends)
        rare = torch.where(weights < -0.5)[0]
        written = x.clone()
        written[edges[0][rare]] = torch.tensor([2.0, 3.0, 4.0]).to(x)
        pairs = x.index_put((target, source % 3), weight, accumulate=True)
        masked = x.clone()
        masked[x[:, 0] > 0] = (x * 2 + 1)[x[:, 0] > 0]
        summed = torch.zeros_like(x).index_add(0, joined[1], x[joined[0]] * joined[2][:, None])
        return (degree, summed, x.index_add(0, target, brought), most, mean, least, written, pairs, masked,
                x.scatter(0, edges[0][rare][:, None].expand(-1, 3), 7.0))


class Durations(nn.Module):
    """Rows repeated as often as a tensor says, as speech synthesis stretches phonemes."""

    def forward(self, x, times):
        return torch.repeat_interleave(x, times, 0), torch.repeat_interleave(x.sum(1), times)


class Known(nn.Module):
    """Values that buffers and constants give, checks of the data, and numbers of the data in arithmetic."""

    def __init__(self):
        super().__init__()
        self.register_buffer("is_set", torch.tensor(True))
        self.register_buffer("sizes", torch.tensor([1, 2]))

    def forward(self, x):
        if self.is_set:
            x = x * 2
        if not (self.sizes > 1).any():
            x = x * 100
        assert (x == x).all(), "no number"
        if not torch.isfinite(x.sum()):
            raise ValueError("infinite")
        if x.isnan().any() or x.isinf().any():
            raise ValueError("no number")
        axes = torch.arange(1, x.ndim).tolist()
        largest = x.max().item()
        return (x[:, :int(self.sizes.max())].sum(axes), x.clamp(min=largest - 1.5), x.clamp(max=largest * 0.5 + 1), x + largest,
                torch.full_like(x, float("nan")), torch.full((2, 3), x.shape[1]))


class ReadNumbers(nn.Module):
    """Places, bounds and amounts that are numbers read from tensors."""

    def forward(self, x, lengths):
        place = x[:, 0].argmax()
        number = lengths[1].item()
        torch._check(number >= 0)
        torch._check(number <= 3)
        written = x.clone()
        written[place] = x[0] * 2
        written[place, 2] += 1
        written[:, number:number + 2] = x[:, :2]
        beginning = x[:, :lengths.max()]
        positive = x[x > 0]
        return (x[place], x[place - 1, 2], x[:, number], x[..., -1 - number // 2], x[:, number:number + 2], written, torch.roll(x, number, 1),
                torch.roll(x, -number, 1), torch.full((3,), number), x * (number / 2), x + number % 2, x - abs(number - 3), beginning.mean(1),
                beginning.sum(1), beginning.softmax(1).amax(1), x[:, :-lengths.max()].sum(1), positive.mean(), x[lengths > 1].mean(0),
                x[x > 100].mean())


class ReadLengths(nn.Module):
    """A mask as wide as the longest of what a tensor counts, and rows cut there."""

    def forward(self, x, lengths):
        mask = torch.arange(lengths.max().item())[None] < lengths[:, None]
        return mask.sum(1), torch.arange(2, lengths.max().item() + 2).sum(), (mask.float() * x[:, :1]).sum(1), mask.T, x[:, :lengths.max()].T


class Bits(nn.Module):
    """Parts and neighbours of floats, and the values that are there most often."""

    def forward(self, x, other, labels):
        whole = torch.round(x * 2)
        return (*torch.frexp(x * 1e3), torch.frexp(torch.tensor([0.0, -0.0, float("inf"), 2.0, -0.75]) + x[0, 0] * 0)[1], torch.signbit(x),
                torch.signbit(x * 0), torch.signbit(x.half()), torch.signbit(labels), torch.nextafter(x, other), torch.nextafter(x, x),
                torch.nextafter(x.half(), other.half()), torch.nextafter(torch.zeros_like(x), other), *labels.mode(), *labels.mode(0, keepdim=True),
                whole.mode(1).values)


class Tally(nn.Module):
    """Numbers counted, up to the largest."""

    def forward(self, labels, weights):
        return torch.bincount(labels), torch.bincount(labels, minlength=7), torch.bincount(labels, weights), torch.bincount(labels).sum()


class Assumed(nn.Module):
    """Goes on by what it asks of tensors."""

    def forward(self, x, lengths):
        if (lengths < 3).any():
            x = x * 2
        mask = torch.arange(int(lengths.max()))[None] < lengths[:, None]
        for length in lengths.tolist():
            x = x + length
        return x[:, :mask.shape[1]] * mask


class DetectorParts(nn.Module):
    """What torchvision's detectors do behind their networks, of rows that the data count."""

    def __init__(self):
        super().__init__()
        from torchvision.ops import MultiScaleRoIAlign
        self.pool = MultiScaleRoIAlign(["fine", "coarse"], 3, 2, canonical_scale=2, canonical_level=1)

    def forward(self, fine, coarse, boxes, scores):
        import torchvision
        from torchvision.models.detection import transform
        kept = torchvision.ops.batched_nms(boxes, scores, (scores * 2).to(torch.int64), 0.3)[:7]
        found = boxes[kept]
        pooled = self.pool({"fine": fine, "coarse": coarse}, [found], [(16, 16)])
        return found, pooled, transform.paste_masks_in_image(pooled[:, :1].sigmoid(), found, (9, 7))
