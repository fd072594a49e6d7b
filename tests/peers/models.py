"""PyTorch's side of the models that more than one comparison uses."""
import torch.nn as nn, torch.nn.functional as F


class Block(nn.Module):
    """A transformer's block as GPT-2 and ViT have it: norm first, a hidden layer four times as wide."""

    def __init__(self, width, heads, is_causal, gelu="none"):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads, self.is_causal, self.gelu = heads, is_causal, gelu
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal).transpose(1, 2).reshape(b, t, d)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate=self.gelu))
