"""The actor that holds the policy: joins a learner as every actor does, and plays by itself."""

from seed_rl.actor.carriers import Transport
from seed_rl.actor.loop import Actor
from seed_rl.policy_actor.player import Player, make_policy, set_up_tensorflow
from seed_rl.seeds import derived_seed
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.client import RefusedError, Stream
from seed_rl.wire.generated import inference_pb2 as pb


class PolicyActor(Actor):
    """An actor process with a policy (`--inference=actor`)."""

    _player: Player | None = None
    _made: bytes = b""  # The key of the player.

    def _join(self, redirects: int) -> pb.Join:
        join = super()._join(redirects)
        join.holds_policy, join.can_share_memory = True, False
        return join

    def _carrier(self, stream: Stream, welcome: pb.Welcome, spec: EnvironmentSpec) -> Transport:
        """The player, which is kept as long as the groups and the policy are the same."""
        if not welcome.HasField("policy"):
            raise RefusedError(
                "The learner sends no policy: start it with --inference=actor, or `seed_rl actor`."
            )
        policy = pb.Policy()
        policy.CopyFrom(welcome.policy)
        policy.ClearField("weights")
        made = policy.SerializeToString(deterministic=True)
        if self._player is None or self._player.groups != tuple(self._groups) or made != self._made:
            num_envs = sum(group.environment.num_envs for group in self._groups)
            set_up_tensorflow(derived_seed(welcome.seed, welcome.task))
            made_policy = make_policy(policy, spec, num_envs)
            self._player = Player(tuple(self._groups), made_policy, spec, policy.unroll_length)
            self._made = made
            if self._player.unroll_bytes != policy.unroll_bytes:
                raise RefusedError(
                    "The unrolls of this actor have another size; install the same seed_rl on both."
                )
        self._player.begin(stream, welcome.policy.weights)
        return self._player
