"""Algorithm 1 of DPALS as published: users and items by turns, on prepared data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.linalg.arrays import arrays_on
from discreet.linalg.threads import over_blocks
from discreet.linalg.torch_arrays import TorchArrays
from discreet.models.als.calibration import GRAM, STEP
from discreet.models.als.distributed import Sampled, Solved
from discreet.models.als.moments import item_moments
from discreet.models.als.preprocessing import Prepared
from discreet.models.als.published_steps import (
    a_item,
    a_item_by_gradients,
    a_user,
    clip,
    noisy_svd_start,
    normalised,
    random_start,
    user_ridge,
)
from discreet.models.als.sampling import Sample, vectors_of
from discreet.privacy import GramSum, NormalEquations, Releaser
from discreet.privacy.releaser import SumWith
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.models.als.published import PublishedDPALS


CLIPPED = 16  # parts of all users' vectors


@dataclass(frozen=True)
class Training:
    """Algorithm 1, on prepared data."""

    model: PublishedDPALS
    releaser: Releaser
    data: Prepared
    gpu: TorchArrays | None

    def run(self) -> Array:
        """The vectors of the frequent items."""
        model, data = self.model, self.data
        factors = normalised(self._start()) if model.normalise else self._start()
        for _ in range(model.n_steps):
            users = self._users(factors)
            shared = self._shared(users)
            factors = self._items(factors, users, shared)
            if not np.isfinite(factors).all():  # of public numbers: gradient steps may run away
                factors = np.nan_to_num(factors, nan=0.0, posinf=0.0, neginf=0.0)
            if model.normalise:
                factors = normalised(factors)
        assert len(factors) == len(data.frequent)
        return factors

    def _start(self) -> Array:
        model, shape = self.model, (len(self.data.frequent), self.model.rank)
        if model.start == "random":
            return random_start(*shape, model.start_scale, model.random_state)
        start = noisy_svd_start(self.releaser, self.data.sample, shape, k=model.max_items, entry_clip=self.data.bound)
        longest = float(np.linalg.norm(start, axis=1).max())
        return start * (model.start_scale / longest)

    def _users(self, factors: Array) -> Any:
        """A_user for everybody, some users at a time; or how to solve it, where users are elsewhere."""
        model = self.model
        ridge = user_ridge(factors, model._user_penalty(), model.global_penalty, model.device)
        if isinstance(self.data.own, Sampled):
            return Solved(ridge, a_user, model.user_clip)
        if model.device != "cpu":  # which has room for everybody at once
            users = a_user(ridge, self._own, None)

            def shorten(part: Array) -> None:
                part[:] = clip(part, model.user_clip)

            for _ in over_blocks(shorten, np.array_split(users, CLIPPED), model.n_jobs):
                pass
            return users
        blocks = over_blocks(lambda rows: a_user(ridge, rows, model.user_clip), self.data.own.blocks(), model.n_jobs)
        return np.concatenate(list(blocks))

    @cached_property
    def _own(self) -> UserBatch:
        """Users' items and ratings for their own side: on the card for all steps, if it has room for them."""
        own, gpu = self.data.own, self.gpu
        assert isinstance(own, Sample)
        if gpu is None or len(own.indices) > gpu.most_targets:
            return own
        return UserBatch(own.indptr, gpu.put(own.indices), gpu.put(own.values.astype(np.float64)))

    def _shared(self, users: Any) -> Array | None:
        """The noisy lambda_0 K."""
        model = self.model
        if not model.global_penalty:
            return None
        statistic = GramSum(model.rank, model.user_clip**2)
        noisy = self.releaser.release(GRAM, statistic, self.data.sample.batches(), partial(vectors_of, users))
        return model.global_penalty * noisy.values

    def _penalty(self) -> Array:
        """The lambda c_j^mu / Z' of each item, Z' being the mean of the numerators: public, since the counts are."""
        weights = np.maximum(self.data.counts, 1.0) ** self.model.item_exponent
        penalty: Array = self.model.regularization * weights / weights.mean()
        return penalty

    def _items(self, factors: Array, users: Any, shared: Array | None) -> Array:
        model, data, penalty = self.model, self.data, self._penalty()
        if model.item_step == "gradient":
            top = 0.0 if shared is None else max(float(np.linalg.eigvalsh(shared)[-1]), 0.0)
            curvature = penalty + top + np.maximum(data.counts, 1.0) * model.user_clip**2
            whole_clip = model.max_items**0.5 * model.user_clip * data.bound
            return a_item_by_gradients(
                self.releaser,
                factors,
                data.sample,
                users,
                penalty=penalty,
                shared=shared,
                rates=model.learning_rate / curvature,
                n_gradients=model.n_gradients,
                user_clip=model.user_clip,
                gradient_clip=model.gradient_clip or whole_clip,
            )
        statistic = NormalEquations(
            n_items=len(data.frequent),
            rank=model.rank,
            k=model.max_items,
            user_norm=model.user_clip,
            target_bound=data.bound,
            ratio=model.gram_noise / model.rhs_noise,
            weighted=model._sampling == "weights",
        )
        moments = item_moments(self.releaser, STEP, statistic, data.sample, users, sum_with=self._sum_with(users))
        arrays = arrays_on(model.device)
        return a_item(moments, penalty, shared, model.n_jobs, project_first=model.project_first, arrays=arrays)

    def _sum_with(self, users: Any) -> SumWith | None:
        """How the statistics of an item step are added up, if that is on a card."""
        return None if self._gpu_moments is None else partial(self._gpu_moments, self.data.sample, users)

    @cached_property
    def _gpu_moments(self) -> Any:
        if self.gpu is None:
            return None
        from discreet.models.als.gpu_moments import GpuMoments

        return GpuMoments(self.gpu, self.releaser.n_jobs)
