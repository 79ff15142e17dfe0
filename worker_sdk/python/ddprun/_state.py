# SPDX-License-Identifier: Apache-2.0
"""The state of a training that goes on in the same processes: docs/recovery.md."""
import copy

import torch
import torch.distributed as dist

import ddprun


class State:
    """What training continues with: parameters, optimizer and counters, the same on all ranks.

    state = ddprun.State(model, optimizer, step=0, scheduler=scheduler, seen=0)

    Each is an attribute. `model`: the module itself, not its DistributedDataParallel. `step`: steps done. In `more`:
    further modules and optimizers, what has state_dict and load_state_dict, and values that can be pickled. `commit()`
    follows each step. One thread."""

    def __init__(self, model, optimizer, *, step=0, **more):
        for name, value in more.items():
            if hasattr(self, name):
                raise ValueError(f"ddprun.State: {name!r} has a meaning of its own; give it another name")
            setattr(self, name, value)
        self.model = model
        self.optimizer = optimizer
        self.step = step
        everything = {"optimizer": optimizer, "step": step, **more}
        self._modules = [model] + [value for value in more.values() if isinstance(value, torch.nn.Module)]
        self._optimizers = [optimizer] + [value for value in more.values() if hasattr(value, "param_groups")]
        rest = {name: value for name, value in everything.items() if not isinstance(value, torch.nn.Module)}
        self._stateful = [name for name, value in rest.items() if hasattr(value, "load_state_dict")]
        self._values = [name for name in rest if name not in self._stateful]
        # Schedulers and the like. Optimizers are large, and change in their step only.
        self._small = [name for name in self._stateful if not hasattr(rest[name], "param_groups")]
        self.check()
        self._committed = None  # the last step that the state contains completely
        self._is_clean = True
        self.is_round_over = lambda: False  # set by the elastic function
        self._kept_buffers = {}
        self._kept = None
        for one in self._optimizers:
            one.register_step_pre_hook(self._begin_change)

    def check(self):
        """Raises TypeError or ValueError for what cannot be kept."""
        for module in self._modules:
            _check_module(module)
        known = {id(parameter) for module in self._modules for parameter in module.parameters()}
        for one in self._optimizers:
            if not isinstance(one, torch.optim.Optimizer):
                raise TypeError(f"ddprun.State: {type(one).__name__} is no torch.optim.Optimizer: its steps cannot be seen")
        for group in self._groups():
            if any(id(parameter) not in known for parameter in group["params"]):
                raise ValueError("ddprun.State: an optimizer has parameters of no module of this State; give that module too")

    def _begin_change(self, *_):
        self._is_clean = False

    def commit(self):
        """The state contains `step` steps completely. Directly after the last change of a step to it, before any
        collective. Reports the step, as ddprun.report does."""
        if self._committed is not None and self.step <= self._committed:
            raise ValueError(f"ddprun.State.commit: step {self.step} after {self._committed}; each step has a higher one")
        if self.is_round_over():
            raise RuntimeError("ddprun.State.commit: the round is over, so this step's gradients are not those of all ranks")
        ddprun.report(self.step)
        self._keep()
        self._committed = self.step
        self._is_clean = True

    def reached(self):
        """The last step that the state contains completely, or None, and whether it has not changed since."""
        return self._committed, self._is_clean

    def _buffers(self):
        return {(at, name): buffer for at, module in enumerate(self._modules) for name, buffer in module.named_buffers()}

    def _groups(self):
        return [group for optimizer in self._optimizers for group in optimizer.param_groups]

    @torch.no_grad()
    def _keep(self):
        """Copies what changes in a step before its collectives: running averages, counters, learning rates."""
        buffers, kept = self._buffers(), self._kept_buffers
        if _shapes(buffers) != _shapes(kept):
            self._kept_buffers = {name: buffer.clone() for name, buffer in buffers.items()}
        elif buffers:
            torch._foreach_copy_([kept[name] for name in buffers], list(buffers.values()))
        self._kept = copy.deepcopy((
            {name: getattr(self, name) for name in self._values},
            {name: getattr(self, name).state_dict() for name in self._small},
            [{key: value for key, value in group.items() if key != "params"} for group in self._groups()]))

    @torch.no_grad()
    def undo_step(self):
        """Undoes what a step that was interrupted has changed."""
        for module in self._modules:
            module.zero_grad(set_to_none=True)
        if self._committed is None:
            return
        buffers = self._buffers()
        if _shapes(buffers) != _shapes(self._kept_buffers):
            self._committed = None  # it cannot be undone
            return
        for name, buffer in buffers.items():
            buffer.copy_(self._kept_buffers[name])
        values, parts, groups = copy.deepcopy(self._kept)
        for name, value in values.items():
            setattr(self, name, value)
        for name, part in parts.items():
            getattr(self, name).load_state_dict(part)
        for group, settings in zip(self._groups(), groups):
            group.update(settings)

    @torch.no_grad()
    def receive(self, source, step):
        """Sends the state to all ranks, or receives it."""
        is_source = dist.get_rank() == source
        has_it = self._is_clean and self._committed == step
        if is_source and not has_it:
            raise RuntimeError("the worker that had the state of this job ended, and this one is new: another round follows")
        if not has_it:
            self._committed = None
        modules = [tensor for module in self._modules for tensor in (*module.parameters(), *module.buffers())]
        _broadcast(modules, source, "the model")
        parts = {name: getattr(self, name).state_dict() for name in self._stateful}
        tensors = []
        outline = [(_outline(parts, tensors), {name: getattr(self, name) for name in self._values})]
        dist.broadcast_object_list(outline, src=source)
        parts, values = outline[0]
        if not has_it:
            tensors = []
            parts = _filled(parts, tensors)
        _broadcast(tensors, source, "the optimizer's state")
        dist.barrier()
        if not has_it:
            for name, part in parts.items():
                getattr(self, name).load_state_dict(part)
            for name, value in values.items():
                setattr(self, name, value)
        self._keep()
        self._committed = step
        self._is_clean = True


def _check_module(module):
    if isinstance(module, torch.nn.parallel.DistributedDataParallel):
        raise TypeError("ddprun.State: give the model itself (ddp.module); build DistributedDataParallel in the elastic function")
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"ddprun.State: the model is a torch.nn.Module, not {type(module).__name__}")
    is_sharded = any(type(one).__name__ == "FullyShardedDataParallel" for one in module.modules())
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if is_sharded or hasattr(tensor, "placements") or hasattr(tensor, "_local_shard"):
            raise TypeError(f"ddprun.State: {name} is sharded over ranks; only a state that is the same on all can be kept")


def _shapes(tensors):
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


class _Hole:
    """Where a tensor was in a state_dict."""

    def __init__(self, tensor):
        self.shape, self.dtype, self.device = tensor.shape, tensor.dtype, tensor.device.type

    def filled(self):
        return torch.empty(self.shape, dtype=self.dtype, device=self.device)


def _outline(value, tensors):
    """`value` with holes for its tensors, which are appended to `tensors`."""
    return _mapped(value, torch.Tensor, lambda tensor: tensors.append(tensor.detach()) or _Hole(tensor))


def _filled(value, tensors):
    def fill(hole):
        tensors.append(hole.filled())
        return tensors[-1]

    return _mapped(value, _Hole, fill)


def _mapped(value, kind, change):
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(one, kind, change) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_mapped(one, kind, change) for one in value)
    return value


def _broadcast(tensors, source, what):
    """As bytes: all types, and the same bits. All ranks have tensors of the same shapes."""
    tensors = [tensor.detach() for tensor in tensors]
    own = [(tuple(tensor.shape), tensor.dtype) for tensor in tensors]
    sizes = [own]
    dist.broadcast_object_list(sizes, src=source)
    if sizes[0] != own:
        raise RuntimeError(f"{what} of rank {source} has other tensors than this rank's: {len(sizes[0])} there, {len(own)} here")
    moves = []
    for tensor in tensors:
        whole = tensor.contiguous()
        work = dist.broadcast(whole.reshape(-1).view(torch.uint8), src=source, async_op=True) if whole.numel() else None
        moves.append((tensor, whole, work))
    for tensor, whole, work in moves:
        if work:
            work.wait()
        if whole.data_ptr() != tensor.data_ptr():
            tensor.copy_(whole)
