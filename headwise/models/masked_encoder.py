"""An encoder that tells masked tokens from those around them: embeddings, a token encoder, an output per place."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.attention.dropout import Dropout
from headwise.layers.initializers import initialize
from headwise.layers.recurrent import initialize_cells
from headwise.models.token_encoders import EncoderConfig, TokenEncoder


class MaskedEncoder(nn.Module):
    """output(norm(gelu(dense(encoder(dropout(E[token])))))), at the places that are asked for.

    Args:
        transform: from the width of the encoder to that of the output; Devlin et al. 2019 have it in their program.
        output: to the vocabulary.
        dropout: on the embeddings.
    """

    def __init__(
        self, embedding: nn.Embedding, encoder: TokenEncoder, transform: nn.Module, output: nn.Linear, dropout: float
    ):
        super().__init__()
        self.embedding, self.encoder, self.transform, self.output = embedding, encoder, transform, output
        self.dropout = Dropout(dropout)

    def hidden(
        self,
        tokens: Int[Tensor, "batch length"],
        valid_lens: Int[Tensor, "batch"],
        places: Int[Tensor, "places"],
    ) -> Float[Tensor, "places d_model"]:
        """What the output reads.

        Args:
            valid_lens: real tokens of each row.
            places: places that are asked for, counted over all rows one after another; each holds a real token.
        """
        states = self.encoder(self.dropout(self.embedding(tokens)), valid_lens)
        found: Tensor = self.transform(states.flatten(0, 1).index_select(0, places))
        return found

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        valid_lens: Int[Tensor, "batch"],
        places: Int[Tensor, "places"],
    ) -> Float[Tensor, "places vocab"]:
        """Logits of the token at each of these places."""
        logits: Tensor = self.output(self.hidden(tokens, valid_lens, places))
        return logits


def build_masked_encoder(
    config: EncoderConfig, vocab_size: int, *, embedding_std: float, tie_output: bool
) -> MaskedEncoder:
    """The model of a configuration.

    Args:
        tie_output: the output's matrix is that of the embeddings.

    >>> import torch
    >>> from headwise.models.token_encoders import WindowConfig
    >>> model = build_masked_encoder(WindowConfig(d_model=8, d_ff=16), 11, embedding_std=0.1, tie_output=True)
    >>> model(torch.tensor([[4, 0, 6]]), torch.tensor([3]), torch.tensor([1])).shape
    torch.Size([1, 11])
    """
    encoder, embedding = config.encoder(), nn.Embedding(vocab_size, config.d_model)
    nn.init.normal_(embedding.weight, std=embedding_std)
    dense = nn.Linear(encoder.width, config.d_model)
    transform = nn.Sequential(dense, nn.GELU(), nn.LayerNorm(config.d_model))
    model = MaskedEncoder(embedding, encoder, transform, nn.Linear(config.d_model, vocab_size), config.dropout)
    initialize(model, config.initializer)
    initialize_cells(model, config.initializer)
    if tie_output:
        model.output.weight = embedding.weight
    return model
