"""What other libraries call our flags, for messages on flags that do not exist."""

import difflib
from collections.abc import Collection

# Names of RL libraries, without '_', '-' and letter case: our names, of which a command has one or another.
_SYNONYMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("lr", "alpha", "stepsize"), ("learning_rate", "actor_learning_rate")),
    **dict.fromkeys(
        ("totaltimesteps", "numtimesteps", "timesteps", "totalsteps", "numsteps", "maxsteps", "steps"),
        ("total_environment_frames",),
    ),
    **dict.fromkeys(("totalframes", "numframes", "maxframes", "frames"), ("total_environment_frames",)),
    **dict.fromkeys(("gamma", "discount", "discountfactor"), ("discounting",)),
    **dict.fromkeys(("lambda", "lam", "gaelambda", "tdlambda"), ("lambda_",)),
    **dict.fromkeys(
        ("nenvs", "numenvs", "numenvironments", "nenv", "envsperactor", "numenvsperworker"),
        ("env_batch_size", "num_actors"),
    ),
    **dict.fromkeys(("workers", "numworkers", "nworkers", "numprocesses", "actors"), ("num_actors",)),
    **dict.fromkeys(
        ("device", "cuda", "gpu", "gpus", "numgpus", "devices"), ("training_devices", "require_accelerator")
    ),
    **dict.fromkeys(("tpu", "backend"), ("accelerator",)),
    **dict.fromkeys(("env", "envid", "envname", "gymid", "task", "level", "scenario", "rom"), ("game",)),
    **dict.fromkeys(("suite", "domain"), ("environment",)),
    **dict.fromkeys(("algo", "algorithm", "alg", "model"), ("agent",)),
    **dict.fromkeys(
        ("logdirectory", "outputdir", "outdir", "savedir", "savepath", "rundir", "tensorboardlog", "exp"),
        ("logdir",),
    ),
    **dict.fromkeys(("randomseed", "rngseed"), ("seed",)),
    **dict.fromkeys(("entcoef", "entropycoef", "entropycoeff", "entropyweight", "beta"), ("entropy_cost",)),
    **dict.fromkeys(("vfcoef", "valuecoef", "valuelosscoef", "criticcoef"), ("baseline_cost",)),
    **dict.fromkeys(("maxgradnorm", "gradclip", "gradientclip", "gradnorm"), ("clip_norm",)),
    **dict.fromkeys(("cliprange", "clipcoef", "clipparam", "clipepsilon", "ppoclip"), ("clip_ratio",)),
    **dict.fromkeys(("clipvloss", "cliprangevf", "vfclip"), ("clip_value",)),
    **dict.fromkeys(("nepochs", "numepochs", "updateepochs", "ppoepochs"), ("epochs", "passes")),
    **dict.fromkeys(
        ("rolloutlength", "rolloutsteps", "rolloutfragmentlength", "horizon", "sequencelength", "unroll"),
        ("unroll_length",),
    ),
    **dict.fromkeys(("nstep", "multistep"), ("n_steps",)),
    **dict.fromkeys(("minibatchsize", "batch", "trainbatchsize", "numminibatches"), ("batch_size",)),
    **dict.fromkeys(("buffersize", "memorysize", "replaysize", "replaycapacity"), ("replay_buffer_size",)),
    **dict.fromkeys(("learningstarts", "warmup", "warmupsteps", "minreplay"), ("replay_buffer_min_size",)),
    **dict.fromkeys(("trainfreq", "trainfrequency", "utd", "gradientsteps"), ("replay_ratio",)),
    **dict.fromkeys(("tau", "polyak"), ("target_update_rate",)),
    **dict.fromkeys(
        ("targetupdateinterval", "targetnetworkfrequency", "targetupdatefreq"),
        ("update_target_every_n_step",),
    ),
    **dict.fromkeys(("epsilonend", "epsend", "finaleps", "explorationfinaleps"), ("final_epsilon",)),
    **dict.fromkeys(("epsilonstart", "epsstart", "explorationinitialeps"), ("initial_epsilon",)),
    **dict.fromkeys(("explorationfraction", "epsdecay", "epsilondecay"), ("epsilon_fraction",)),
    **dict.fromkeys(("hiddensizes", "hiddensize", "netarch", "layers", "hidden"), ("mlp_sizes",)),
    **dict.fromkeys(("activation", "activationfn"), ("mlp_activation",)),
    **dict.fromkeys(("rnnsize", "recurrent", "lstm", "uselstm", "rnn"), ("lstm_size",)),
    **dict.fromkeys(("framestack", "stack", "nstack", "stackframes"), ("frame_stack",)),
    **dict.fromkeys(("frameskip", "actionrepeat", "repeat"), ("num_action_repeats",)),
    **dict.fromkeys(("normobs", "normalizeobs", "obsnorm"), ("normalize_observations",)),
    **dict.fromkeys(("normreward", "normalizereward"), ("normalize_rewards",)),
    **dict.fromkeys(("normadv", "normalizeadvantage"), ("normalize_advantages",)),
    **dict.fromkeys(("rewardclip", "clipreward", "clipobj"), ("max_abs_reward",)),
    **dict.fromkeys(("sticky", "stickyactions", "repeatactionprobability"), ("sticky_action_probability",)),
    **dict.fromkeys(("per", "prioritized", "prioritizedreplayalpha"), ("priority_exponent",)),
    **dict.fromkeys(("load", "checkpoint", "resume", "pretrained", "restore"), ("init_checkpoint", "logdir")),
    **dict.fromkeys(("savefreq", "saveinterval", "checkpointfreq"), ("save_checkpoint_secs",)),
    **dict.fromkeys(("loginterval", "logfreq"), ("log_period_secs",)),
    **dict.fromkeys(("wandb", "track", "wandbprojectname", "project"), ("wandb_project",)),
    **dict.fromkeys(("deterministic", "reproducible", "torchdeterministic"), ("synchronous",)),
    **dict.fromkeys(("maxepisodesteps", "timelimit", "maxeplen"), ("max_episode_frames",)),
    **dict.fromkeys(("learningratedecay", "anneallr", "lrschedule", "lrdecay"), ("learning_rate_schedule",)),
}


def nearest_flags(name: str, known: Collection[str]) -> list[str]:
    """The flags among `known` that somebody may mean by `name`: by meaning, else by spelling."""
    meant = _SYNONYMS.get(name.replace("_", "").replace("-", "").lower(), ())
    return [flag for flag in meant if flag in known] or difflib.get_close_matches(name, list(known))
