"""The options of a search: how it spends its readouts."""

from __future__ import annotations

from pydantic import Field

from pipeline.options import Options, composed

C_PUCT = "Exploration constant of PUCT."
NOISE_WEIGHT = "PUCT: share of Dirichlet noise in the root prior."
LCB = (
    "PUCT at temperature 0 plays the move of highest lower confidence bound: its value minus this many standard errors "
    "(KataGo: 5). Moves need 15 % of the most visits. 0 = the most visited move."
)


@composed("players")
class SearchOptions(Options):
    """How players choose moves: the options of the search, and those that methods add at ``players``."""

    panel = "Search"
    of_methods = True

    algorithm: str = Field(
        "puct",
        pattern="^(puct|gumbel|mixed)$",
        description="puct; gumbel, which learns from few readouts; or mixed: gumbel for full searches in self-play; "
        "puct, which keeps its tree between moves, for cheap searches and matches.",
    )
    c_puct: float = Field(1.5, gt=0, description=C_PUCT)
    fpu_reduction: float = Field(
        0.2,
        ge=0,
        description="An unvisited move's value is its parent's, minus this times sqrt(prior of the visited moves).",
    )
    root_fpu_reduction: float = Field(0.0, ge=0, description="The same at the root.")
    lcb_deviations: float = Field(0.0, ge=0, description=LCB)
    noise_weight: float = Field(0.25, ge=0, le=1, description=NOISE_WEIGHT)
    noise_total: float = Field(
        10.83, gt=0, description="PUCT: sum of the Dirichlet parameters, spread evenly over the legal moves."
    )
    noise_shape: float = Field(
        0.0,
        ge=0,
        le=1,
        description="PUCT: share of the Dirichlet parameters that favours moves of higher prior (KataGo: 0.5).",
    )
    forced_playouts: float = Field(
        0.0,
        ge=0,
        description="PUCT, k: a visited root move gets at least sqrt(k * prior * readouts) readouts; policy targets "
        "leave out the forced ones (KataGo: 2); 0 = off.",
    )
    max_num_considered_actions: int = Field(
        16, ge=2, description="Gumbel: the largest number of root moves that share the readouts."
    )
    gumbel_scale: float = Field(1.0, ge=0, description="Gumbel: scale of the noise in self-play; matches have none.")
    value_scale: float = Field(0.1, gt=0, description="Gumbel: weight of a move's rescaled value, added to its logit.")
    max_visit_init: float = Field(50.0, ge=0, description="Gumbel: added to the largest visit count in that weight.")

    def search_options(self) -> SearchOptions:
        """The search options of a command's options."""
        return self.first_search()

    def first_search(self) -> SearchOptions:
        """Without those of a second search of decided positions."""
        return SearchOptions(**{name: getattr(self, name) for name in SearchOptions.model_fields})


class PlaySearchOptions(SearchOptions):
    """The same for playing to win, in matches or against people: no noise, and what plays best in 9x9 Go (docs/log)."""

    panel = "Decided positions"

    c_puct: float = Field(0.9, gt=0, description=C_PUCT)
    lcb_deviations: float = Field(5.0, ge=0, description=LCB)
    margin_from: float = Field(
        0.95,
        gt=0,
        le=1,
        description="Once a side's value reaches this, a second search chooses the move: by the margin, or in games "
        "without margins by the length of the game; a pass if no move gains anything. 1 = never.",
    )
    noise_weight: float = Field(0.0, ge=0, le=1, description=NOISE_WEIGHT)

    def search_options(self) -> PlaySearchOptions:
        return PlaySearchOptions(**{name: getattr(self, name) for name in PlaySearchOptions.model_fields})
