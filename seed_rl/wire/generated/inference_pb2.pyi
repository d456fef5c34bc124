from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

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

class Description(_message.Message):
    __slots__ = ("protocol_version", "environment", "settings", "observation", "action", "num_envs", "num_action_repeats", "max_environments_per_message", "max_message_bytes", "board")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    NUM_ENVS_FIELD_NUMBER: _ClassVar[int]
    NUM_ACTION_REPEATS_FIELD_NUMBER: _ClassVar[int]
    MAX_ENVIRONMENTS_PER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    BOARD_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    environment: str
    settings: _containers.ScalarMap[str, str]
    observation: _containers.RepeatedCompositeFieldContainer[ArraySpec]
    action: ArraySpec
    num_envs: int
    num_action_repeats: int
    max_environments_per_message: int
    max_message_bytes: int
    board: Board
    def __init__(self, protocol_version: _Optional[int] = ..., environment: _Optional[str] = ..., settings: _Optional[_Mapping[str, str]] = ..., observation: _Optional[_Iterable[_Union[ArraySpec, _Mapping]]] = ..., action: _Optional[_Union[ArraySpec, _Mapping]] = ..., num_envs: _Optional[int] = ..., num_action_repeats: _Optional[int] = ..., max_environments_per_message: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., board: _Optional[_Union[Board, _Mapping]] = ...) -> None: ...

class Board(_message.Message):
    __slots__ = ("address", "secret")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    address: str
    secret: bytes
    def __init__(self, address: _Optional[str] = ..., secret: _Optional[bytes] = ...) -> None: ...

class BoardPart(_message.Message):
    __slots__ = ("connection", "stream", "offset")
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    connection: int
    stream: int
    offset: int
    def __init__(self, connection: _Optional[int] = ..., stream: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class LeaseRequest(_message.Message):
    __slots__ = ("run_id", "num_envs", "task")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NUM_ENVS_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    run_id: int
    num_envs: int
    task: int
    def __init__(self, run_id: _Optional[int] = ..., num_envs: _Optional[int] = ..., task: _Optional[int] = ...) -> None: ...

class TaskLease(_message.Message):
    __slots__ = ("task", "must_restart", "address")
    TASK_FIELD_NUMBER: _ClassVar[int]
    MUST_RESTART_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    task: int
    must_restart: bool
    address: str
    def __init__(self, task: _Optional[int] = ..., must_restart: bool = ..., address: _Optional[str] = ...) -> None: ...

class ActRequest(_message.Message):
    __slots__ = ("hello", "step")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    step: Step
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., step: _Optional[_Union[Step, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol_version", "run_id", "first_env", "num_envs", "environment", "settings", "observation", "action", "task", "board")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_ENV_FIELD_NUMBER: _ClassVar[int]
    NUM_ENVS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    BOARD_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    run_id: int
    first_env: int
    num_envs: int
    environment: str
    settings: _containers.ScalarMap[str, str]
    observation: _containers.RepeatedCompositeFieldContainer[ArraySpec]
    action: ArraySpec
    task: int
    board: BoardPart
    def __init__(self, protocol_version: _Optional[int] = ..., run_id: _Optional[int] = ..., first_env: _Optional[int] = ..., num_envs: _Optional[int] = ..., environment: _Optional[str] = ..., settings: _Optional[_Mapping[str, str]] = ..., observation: _Optional[_Iterable[_Union[ArraySpec, _Mapping]]] = ..., action: _Optional[_Union[ArraySpec, _Mapping]] = ..., task: _Optional[int] = ..., board: _Optional[_Union[BoardPart, _Mapping]] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("records", "episodes")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    records: bytes
    episodes: _containers.RepeatedCompositeFieldContainer[Episode]
    def __init__(self, records: _Optional[bytes] = ..., episodes: _Optional[_Iterable[_Union[Episode, _Mapping]]] = ...) -> None: ...

class Episode(_message.Message):
    __slots__ = ("env", "episode_return", "agent_steps")
    ENV_FIELD_NUMBER: _ClassVar[int]
    EPISODE_RETURN_FIELD_NUMBER: _ClassVar[int]
    AGENT_STEPS_FIELD_NUMBER: _ClassVar[int]
    env: int
    episode_return: float
    agent_steps: int
    def __init__(self, env: _Optional[int] = ..., episode_return: _Optional[float] = ..., agent_steps: _Optional[int] = ...) -> None: ...

class ActResponse(_message.Message):
    __slots__ = ("actions",)
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    actions: bytes
    def __init__(self, actions: _Optional[bytes] = ...) -> None: ...
