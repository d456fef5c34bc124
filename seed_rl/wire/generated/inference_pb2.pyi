from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FromActor(_message.Message):
    __slots__ = ("join", "ready", "steps")
    JOIN_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    join: Join
    ready: Ready
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    def __init__(self, join: _Optional[_Union[Join, _Mapping]] = ..., ready: _Optional[_Union[Ready, _Mapping]] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ...) -> None: ...

class FromLearner(_message.Message):
    __slots__ = ("welcome", "actions")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    actions: _containers.RepeatedCompositeFieldContainer[Actions]
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., actions: _Optional[_Iterable[_Union[Actions, _Mapping]]] = ...) -> None: ...

class Join(_message.Message):
    __slots__ = ("protocol_version", "process_id", "num_envs", "num_groups", "task", "can_share_memory", "redirects", "holds_policy")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    NUM_ENVS_FIELD_NUMBER: _ClassVar[int]
    NUM_GROUPS_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    CAN_SHARE_MEMORY_FIELD_NUMBER: _ClassVar[int]
    REDIRECTS_FIELD_NUMBER: _ClassVar[int]
    HOLDS_POLICY_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    process_id: int
    num_envs: int
    num_groups: int
    task: int
    can_share_memory: bool
    redirects: int
    holds_policy: bool
    def __init__(self, protocol_version: _Optional[int] = ..., process_id: _Optional[int] = ..., num_envs: _Optional[int] = ..., num_groups: _Optional[int] = ..., task: _Optional[int] = ..., can_share_memory: bool = ..., redirects: _Optional[int] = ..., holds_policy: bool = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("address", "task", "must_reset", "suite", "settings", "seed", "observation", "action", "memory", "policy", "num_players", "spaces")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    MUST_RESET_FIELD_NUMBER: _ClassVar[int]
    SUITE_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    NUM_PLAYERS_FIELD_NUMBER: _ClassVar[int]
    SPACES_FIELD_NUMBER: _ClassVar[int]
    address: str
    task: int
    must_reset: bool
    suite: str
    settings: _containers.ScalarMap[str, str]
    seed: int
    observation: _containers.RepeatedCompositeFieldContainer[ArraySpec]
    action: ArraySpec
    memory: Memory
    policy: Policy
    num_players: int
    spaces: str
    def __init__(self, address: _Optional[str] = ..., task: _Optional[int] = ..., must_reset: bool = ..., suite: _Optional[str] = ..., settings: _Optional[_Mapping[str, str]] = ..., seed: _Optional[int] = ..., observation: _Optional[_Iterable[_Union[ArraySpec, _Mapping]]] = ..., action: _Optional[_Union[ArraySpec, _Mapping]] = ..., memory: _Optional[_Union[Memory, _Mapping]] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., num_players: _Optional[int] = ..., spaces: _Optional[str] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("agent", "settings", "network", "unroll_bytes", "unroll_length", "weights")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    UNROLL_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNROLL_LENGTH_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    agent: str
    settings: _containers.ScalarMap[str, str]
    network: str
    unroll_bytes: int
    unroll_length: int
    weights: Weights
    def __init__(self, agent: _Optional[str] = ..., settings: _Optional[_Mapping[str, str]] = ..., network: _Optional[str] = ..., unroll_bytes: _Optional[int] = ..., unroll_length: _Optional[int] = ..., weights: _Optional[_Union[Weights, _Mapping]] = ...) -> None: ...

class Weights(_message.Message):
    __slots__ = ("version", "arrays")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    version: int
    arrays: bytes
    def __init__(self, version: _Optional[int] = ..., arrays: _Optional[bytes] = ...) -> None: ...

class ArraySpec(_message.Message):
    __slots__ = ("name", "dtype", "shape", "minimum", "maximum", "bits")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    minimum: _containers.RepeatedScalarFieldContainer[float]
    maximum: _containers.RepeatedScalarFieldContainer[float]
    bits: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., minimum: _Optional[_Iterable[float]] = ..., maximum: _Optional[_Iterable[float]] = ..., bits: _Optional[_Iterable[int]] = ...) -> None: ...

class Memory(_message.Message):
    __slots__ = ("address", "key", "size", "group_size", "episodes", "actions", "figures")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    address: str
    key: bytes
    size: int
    group_size: int
    episodes: int
    actions: int
    figures: int
    def __init__(self, address: _Optional[str] = ..., key: _Optional[bytes] = ..., size: _Optional[int] = ..., group_size: _Optional[int] = ..., episodes: _Optional[int] = ..., actions: _Optional[int] = ..., figures: _Optional[int] = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ("applied", "shares_memory")
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    SHARES_MEMORY_FIELD_NUMBER: _ClassVar[int]
    applied: _containers.RepeatedScalarFieldContainer[int]
    shares_memory: bool
    def __init__(self, applied: _Optional[_Iterable[int]] = ..., shares_memory: bool = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("group", "records", "episodes")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    group: int
    records: bytes
    episodes: _containers.RepeatedCompositeFieldContainer[Episode]
    def __init__(self, group: _Optional[int] = ..., records: _Optional[bytes] = ..., episodes: _Optional[_Iterable[_Union[Episode, _Mapping]]] = ...) -> None: ...

class Episode(_message.Message):
    __slots__ = ("env", "episode_return", "agent_steps", "figures")
    class FiguresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    ENV_FIELD_NUMBER: _ClassVar[int]
    EPISODE_RETURN_FIELD_NUMBER: _ClassVar[int]
    AGENT_STEPS_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    env: int
    episode_return: float
    agent_steps: int
    figures: _containers.ScalarMap[str, float]
    def __init__(self, env: _Optional[int] = ..., episode_return: _Optional[float] = ..., agent_steps: _Optional[int] = ..., figures: _Optional[_Mapping[str, float]] = ...) -> None: ...

class Actions(_message.Message):
    __slots__ = ("group", "actions")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    group: int
    actions: bytes
    def __init__(self, group: _Optional[int] = ..., actions: _Optional[bytes] = ...) -> None: ...
