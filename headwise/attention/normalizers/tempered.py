"""Another normalizer at another temperature."""

from headwise.attention.normalizers.normalizer import Keep, Normalizer, Scores
from headwise.errors import ConfigError


class Tempered(Normalizer):
    """normalizer(s / temperature): below 1 rows are sharper, above 1 more even.

    Args:
        temperature: at least 1e-6.

    >>> import torch
    >>> from headwise.attention.normalizers import softmax
    >>> Tempered(softmax, 0.5)(torch.tensor([[[[0.0, 1.0]]]]), None).round(decimals=4).tolist()
    [[[[0.11919999867677689, 0.8808000087738037]]]]
    """

    def __init__(self, normalizer: Normalizer, temperature: float):
        super().__init__()
        # scores that are divided by less leave the range of float32
        if not 1e-6 <= temperature < float("inf"):
            raise ConfigError(f"temperature ({temperature}) must be at least 1e-6, and finite")
        self.normalizer, self.temperature = normalizer, temperature

    def forward(self, scores: Scores, keep: Keep | None) -> Scores:
        weights: Scores = self.normalizer(scores / self.temperature, keep)
        return weights

    @property
    def name(self) -> str:
        return f"{self.normalizer.name} at temperature {self.temperature:g}"

    def per_head(self) -> bool:
        return self.normalizer.per_head()

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}"
