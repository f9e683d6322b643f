#include "apps/python/ddprun/torch/extension/collectives.hpp"

#include <algorithm>

#include "apps/python/ddprun/torch/extension/requests.hpp"

namespace ddprun {
inline namespace app {
namespace {

using c10d::OpType;

// Several tensors of one rank count as several ranks'.
void combine(at::Tensor& into, const at::Tensor& other, const c10d::ReduceOp& op, const Refusal& refuse) {
    switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
        case c10d::ReduceOp::SUM: into.add_(other); return;
        case c10d::ReduceOp::PRODUCT: into.mul_(other); return;
        case c10d::ReduceOp::MIN: into.copy_(at::minimum(into, other)); return;
        case c10d::ReduceOp::MAX: into.copy_(at::maximum(into, other)); return;
        case c10d::ReduceOp::BAND: into.bitwise_and_(other); return;
        case c10d::ReduceOp::BOR: into.bitwise_or_(other); return;
        case c10d::ReduceOp::BXOR: into.bitwise_xor_(other); return;
        default: refuse("unsupported reduction operation for several tensors per rank");
    }
}

// Asks for an all_gather, or for a gather on its root, into the tensors, one for each rank, of the input's
// size.
void add_gather(Task& task, int operation, const Tensors& outputs, const at::Tensor& input, int root = -1) {
    const ddprun_part* parts = outputs.empty() ? nullptr : task.writes_all(outputs);
    const at::Tensor in = task.reads(input);
    task.requests.push_back(moving(operation, in, {}, static_cast<size_t>(in.numel()), root));
    task.requests.back().out_parts = parts;
}

void check_types(const Refusal& refuse, const at::Tensor& output, const at::Tensor& input) {
    if (output.scalar_type() != input.scalar_type())
        refuse("output tensor must have the same type as input tensor");
    c10d::assertDense(refuse, {output, input});
    check_on_cpu(refuse, {output, input});
}

void add_all_gather(Task& task, const at::Tensor& output, const at::Tensor& input, int size,
                    const Refusal& refuse) {
    check_types(refuse, output, input);
    if (output.numel() != input.numel() * size)
        refuse("output tensor size must be equal to world_size times input tensor size");
    const at::Tensor in = task.reads(input);
    task.requests.push_back(
        moving(DDPRUN_ALL_GATHER, in, task.writes(output), static_cast<size_t>(input.numel())));
}

void add_reduce_scatter(Task& task, const at::Tensor& output, const at::Tensor& input, int size,
                        const c10d::ReduceOp& op, const Refusal& refuse) {
    check_types(refuse, output, input);
    if (input.numel() != output.numel() * size)
        refuse("input tensor must be the same size as output size times world size");
    const at::Tensor in = task.reads(input);
    task.requests.push_back(
        reducing(DDPRUN_REDUCE_SCATTER, in, task.writes(output), static_cast<size_t>(output.numel()), op));
}

// Asks for an all_to_all of what one rank has for another, whatever its size.
void add_all_to_all(Task& task, const Tensors& outputs, const Tensors& inputs) {
    ddprun_request request = DDPRUN_REQUEST_INIT;
    request.operation = DDPRUN_ALL_TO_ALL;
    request.type = DDPRUN_U8;
    request.out_parts = task.writes_all(outputs);
    request.in_parts = task.reads_all(inputs);
    request.counted = 1;
    task.requests.push_back(request);
}

}  // namespace

WorkPointer Collectives::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
    const Refusal refuse = refusal("all_reduce");
    c10d::assertNonEmpty(refuse, tensors);
    c10d::assertLayoutMatch(refuse, tensors);
    c10d::assertTypeAndSizesMatch(refuse, tensors);
    check_on_cpu(refuse, tensors);
    if (tensors[0].is_sparse()) return allreduce_sparse(tensors, options);
    if (tensors[0].layout() != c10::kStrided) refuse("unsupported layout");
    Task task({tensors}, tensors);
    at::Tensor block = task.writes(tensors[0], true);
    for (size_t i = 1; i < tensors.size(); ++i) {
        combine(block, tensors[i], options.reduceOp, refuse);
        task.copies.emplace_back(tensors[i], block);
    }
    task.requests.push_back(
        reducing(DDPRUN_ALL_REDUCE, block, block, static_cast<size_t>(block.numel()), options.reduceOp));
    return run({OpType::ALLREDUCE, "ddprun:all_reduce", options}, std::move(task));
}

WorkPointer Collectives::allreduce_coalesced(Tensors& tensors,
                                             const c10d::AllreduceCoalescedOptions& options) {
    const Refusal refuse = refusal("all_reduce_coalesced");
    c10d::assertNonEmpty(refuse, tensors);
    c10d::assertLayoutMatch(refuse, tensors);
    for (const at::Tensor& tensor : tensors) {
        if (!tensor.options().type_equal(tensors[0].options())) refuse("tensors must all have the same type");
        if (tensor.device() != tensors[0].device()) refuse("tensors must all be on the same device");
    }
    check_on_cpu(refuse, tensors);
    if (tensors[0].layout() != c10::kStrided) refuse("unsupported layout");
    Task task({tensors}, tensors);
    size_t count = 0;
    for (const at::Tensor& tensor : tensors) count += static_cast<size_t>(tensor.numel());
    ddprun_request request = reducing(DDPRUN_ALL_REDUCE, {}, tensors[0], count, options.reduceOp);
    request.out_parts = task.changes_all(tensors, reduced_as(tensors[0].scalar_type()).second);
    task.requests.push_back(request);
    return run({OpType::ALLREDUCE_COALESCED, "ddprun:all_reduce", options}, std::move(task));
}

WorkPointer Collectives::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
    const Refusal refuse = refusal("broadcast");
    c10d::assertRootRank(refuse, options.rootRank, size_);
    c10d::assertRootTensor(refuse, options.rootTensor, static_cast<int64_t>(tensors.size()));
    c10d::assertDense(refuse, tensors);
    c10d::assertTypeAndSizesMatch(refuse, tensors);
    check_on_cpu(refuse, tensors);
    Task task({tensors}, tensors);
    const auto root = static_cast<size_t>(options.rootTensor);
    const at::Tensor block = task.writes(tensors[root], rank_ == options.rootRank);
    for (size_t i = 0; i < tensors.size(); ++i) {
        if (i != root) task.copies.emplace_back(tensors[i], block);
    }
    task.requests.push_back(moving(DDPRUN_BROADCAST, block, block, static_cast<size_t>(block.numel()),
                                   static_cast<int>(options.rootRank)));
    return run({OpType::BROADCAST, "ddprun:broadcast", options}, std::move(task));
}

WorkPointer Collectives::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
    const Refusal refuse = refusal("reduce");
    c10d::assertRootRank(refuse, options.rootRank, size_);
    c10d::assertRootTensor(refuse, options.rootTensor, static_cast<int64_t>(tensors.size()));
    c10d::assertSingleElement(refuse, tensors);
    c10d::assertDense(refuse, tensors);
    check_on_cpu(refuse, tensors);
    Task task({tensors}, tensors);
    const at::Tensor block = task.writes(tensors[0], true);
    task.requests.push_back(reducing(DDPRUN_REDUCE, block, block, static_cast<size_t>(block.numel()),
                                     options.reduceOp, static_cast<int>(options.rootRank)));
    return run({OpType::REDUCE, "ddprun:reduce", options}, std::move(task));
}

WorkPointer Collectives::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                   const c10d::AllgatherOptions& options) {
    const Refusal refuse = refusal("all_gather");
    if (inputs.empty()) refuse("requires non-empty input tensor list");
    check_same_length(refuse, outputs.size(), inputs.size());
    const size_t expected = inputs.size() * static_cast<size_t>(size_);
    for (size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i].size() != expected)
            refuse(c10::str("invalid output tensor list at index ", i, " (expected length ", expected,
                            ", got ", outputs[i].size(), ")"));
    }
    c10d::assertDense(refuse, inputs);
    c10d::assertTypeAndSizesMatch(refuse, inputs, inputs[0].options(), inputs[0].sizes());
    for (const Tensors& output : outputs) {
        c10d::assertTypeAndSizesMatch(refuse, output, inputs[0].options(), inputs[0].sizes());
    }
    check_on_cpu(refuse, inputs);
    Task task(outputs, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
        Tensors parts;
        for (size_t at = i; at < expected; at += inputs.size()) parts.push_back(outputs[0][at]);
        add_gather(task, DDPRUN_ALL_GATHER, parts, inputs[i]);
    }
    for (size_t i = 1; i < outputs.size(); ++i) {
        for (size_t at = 0; at < expected; ++at) task.copies.emplace_back(outputs[i][at], outputs[0][at]);
    }
    return run({OpType::ALLGATHER, "ddprun:all_gather", options}, std::move(task));
}

WorkPointer Collectives::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                             const c10d::AllgatherOptions& options) {
    const Refusal refuse = refusal("all_gather_coalesced");
    if (inputs.empty()) refuse("requires non-empty input tensor list");
    if (outputs.size() != static_cast<size_t>(size_)) refuse("output lists should be equal to world size");
    for (const Tensors& list : outputs) {
        if (list.size() != inputs.size())
            refuse(c10::str("invalid output size: (expected length ", inputs.size(), ", got ", list.size(),
                            ")"));
    }
    c10d::assertSameDevice(refuse, inputs);
    for (const Tensors& list : outputs) {
        for (size_t i = 0; i < list.size(); ++i) {
            if (list[i].sizes() != inputs[i].sizes())
                refuse(c10::str("invalid size of output tensor at index ", i, " (expected length ",
                                c10d::toString(inputs[i].sizes()), ", got ", c10d::toString(list[i].sizes()),
                                ")"));
            if (!inputs[i].options().type_equal(list[i].options()))
                refuse(c10::str("invalid tensor type at index ", i, " (expected ", inputs[i].toString(),
                                ", got ", list[i].toString(), ")"));
        }
    }
    c10d::assertDense(refuse, inputs);
    check_on_cpu(refuse, inputs);
    Task task(outputs, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
        Tensors parts;
        for (const Tensors& list : outputs) parts.push_back(list[i]);
        add_gather(task, DDPRUN_ALL_GATHER, parts, inputs[i]);
    }
    return run({OpType::ALLGATHER_COALESCED, "ddprun:all_gather", options}, std::move(task));
}

WorkPointer Collectives::_allgather_base(at::Tensor& output, at::Tensor& input,
                                         const c10d::AllgatherOptions& options) {
    Task task({{output}}, Tensors{input});
    add_all_gather(task, output, input, size_, refusal("all_gather_into_tensor"));
    return run({OpType::_ALLGATHER_BASE, "ddprun:all_gather_into_tensor", options}, std::move(task));
}

WorkPointer Collectives::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                         const c10d::AllgatherOptions& options) {
    const Refusal refuse = refusal("all_gather_into_tensor_coalesced");
    check_same_length(refuse, outputs.size(), inputs.size());
    Task task({outputs}, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) add_all_gather(task, outputs[i], inputs[i], size_, refuse);
    return run({OpType::COALESCED, "ddprun:all_gather_into_tensor", options}, std::move(task));
}

WorkPointer Collectives::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                const c10d::GatherOptions& options) {
    const Refusal refuse = refusal("gather");
    c10d::assertRootRank(refuse, options.rootRank, size_);
    c10d::assertSingleElementInput(refuse, inputs);
    c10d::assertDense(refuse, inputs);
    Task task;
    task.inputs = inputs;
    if (rank_ == options.rootRank) {
        check_list_of_all(refuse, "output", outputs, size_);
        c10d::assertTypeAndSizesMatch(refuse, outputs[0], inputs[0].options(), inputs[0].sizes());
    } else if (!outputs.empty()) {
        refuse("requires empty output on non-root");
    }
    check_on_cpu(refuse, inputs);
    task.outputs = outputs;
    add_gather(task, DDPRUN_GATHER, outputs.empty() ? Tensors() : outputs[0], inputs[0],
               static_cast<int>(options.rootRank));
    return run({OpType::GATHER, "ddprun:gather", options}, std::move(task));
}

WorkPointer Collectives::gather_into_tensor(at::Tensor& output, at::Tensor& input,
                                            const c10d::GatherOptions& options) {
    const Refusal refuse = refusal("gather_into_tensor");
    c10d::assertRootRank(refuse, options.rootRank, size_);
    Task task;
    task.inputs = Tensors{input};
    at::Tensor out;
    if (rank_ == options.rootRank) {
        check_types(refuse, output, input);
        if (output.numel() != input.numel() * size_)
            refuse("output tensor size must be equal to world_size times input tensor size");
        task.outputs = {{output}};
        out = task.writes(output);
    }
    c10d::assertDense(refuse, {input});
    check_on_cpu(refuse, {input});
    const at::Tensor in = task.reads(input);
    task.requests.push_back(moving(DDPRUN_GATHER, in, out, static_cast<size_t>(input.numel()),
                                   static_cast<int>(options.rootRank)));
    return run({OpType::GATHER, "ddprun:gather", options}, std::move(task));
}

WorkPointer Collectives::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                 const c10d::ScatterOptions& options) {
    const Refusal refuse = refusal("scatter");
    c10d::assertRootRank(refuse, options.rootRank, size_);
    c10d::assertSingleElementOutput(refuse, outputs);
    c10d::assertDense(refuse, outputs);
    Task task;
    const bool is_root = rank_ == options.rootRank;
    if (is_root) {
        check_list_of_all(refuse, "input", inputs, size_);
        c10d::assertTypeAndSizesMatch(refuse, inputs[0], outputs[0].options(), outputs[0].sizes());
        task.inputs = inputs[0];
    } else if (!inputs.empty()) {
        refuse("requires empty input on non-root");
    }
    check_on_cpu(refuse, outputs);
    task.outputs = {outputs};
    const at::Tensor out = task.writes_of_list(outputs[0]);
    task.requests.push_back(moving(DDPRUN_SCATTER, {}, out, static_cast<size_t>(out.numel()),
                                   static_cast<int>(options.rootRank)));
    if (is_root) task.requests.back().in_parts = task.reads_all(inputs[0]);
    return run({OpType::SCATTER, "ddprun:scatter", options}, std::move(task));
}

WorkPointer Collectives::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                        const c10d::ReduceScatterOptions& options) {
    const Refusal refuse = refusal("reduce_scatter");
    c10d::assertSingleElementOutput(refuse, outputs);
    check_list_of_all(refuse, "input", inputs, size_);
    c10d::assertDense(refuse, outputs);
    c10d::assertDense(refuse, inputs[0]);
    check_on_cpu(refuse, outputs);
    check_on_cpu(refuse, inputs[0]);
    const auto own = static_cast<size_t>(rank_);
    c10d::assertTypeMatch(refuse, outputs[0].options(), inputs[0], own);
    c10d::assertSizesMatch(refuse, outputs[0].sizes(), inputs[0], own);
    Task task({outputs}, inputs[0]);
    const bool equal = std::all_of(inputs[0].begin(), inputs[0].end(), [&](const at::Tensor& each) {
        return each.numel() == outputs[0].numel();
    });
    const at::Tensor out = task.writes_of_list(outputs[0]);
    ddprun_request request =
        reducing(DDPRUN_REDUCE_SCATTER, {}, out, static_cast<size_t>(out.numel()), options.reduceOp);
    request.in_parts = task.reads_all(inputs[0], reduced_as(out.scalar_type()).second);
    request.counted = equal ? 0 : 1;
    task.requests.push_back(request);
    return run({OpType::REDUCE_SCATTER, "ddprun:reduce_scatter", options}, std::move(task));
}

WorkPointer Collectives::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                              const c10d::ReduceScatterOptions& options) {
    Task task({{output}}, Tensors{input});
    add_reduce_scatter(task, output, input, size_, options.reduceOp, refusal("reduce_scatter_tensor"));
    return run({OpType::_REDUCE_SCATTER_BASE, "ddprun:reduce_scatter_tensor", options}, std::move(task));
}

WorkPointer Collectives::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                         const c10d::ReduceScatterOptions& options) {
    const Refusal refuse = refusal("reduce_scatter_tensor_coalesced");
    check_same_length(refuse, outputs.size(), inputs.size());
    Task task({outputs}, inputs);
    for (size_t i = 0; i < inputs.size(); ++i)
        add_reduce_scatter(task, outputs[i], inputs[i], size_, options.reduceOp, refuse);
    return run({OpType::COALESCED, "ddprun:reduce_scatter_tensor", options}, std::move(task));
}

WorkPointer Collectives::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
    const Refusal refuse = refusal("all_to_all");
    if (inputs.size() != static_cast<size_t>(size_))
        refuse("invalid input tensor list size, must be world size");
    check_same_length(refuse, outputs.size(), inputs.size());
    Task task({outputs}, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) check_types(refuse, outputs[i], inputs[i]);
    const auto own = static_cast<size_t>(rank_);
    c10d::assertSizesMatch(refuse, outputs[own].sizes(), inputs, own);
    add_all_to_all(task, outputs, inputs);
    return run({OpType::ALLTOALL, "ddprun:all_to_all", options}, std::move(task));
}

WorkPointer Collectives::alltoall_base(at::Tensor& output, at::Tensor& input,
                                       std::vector<int64_t>& output_counts,
                                       std::vector<int64_t>& input_counts,
                                       const c10d::AllToAllOptions& options) {
    const Refusal refuse = refusal("all_to_all_single");
    TORCH_CHECK(output.device() == input.device(),
                "output tensor and input tensor must be on the same type of device");
    check_types(refuse, output, input);
    TORCH_CHECK_VALUE(Task::is_block(output) && Task::is_block(input), "Tensors must be contiguous");
    Task task({{output}}, Tensors{input});
    const Calling call{OpType::ALLTOALL_BASE, "ddprun:all_to_all", options};
    if (input_counts.empty() && output_counts.empty()) {
        c10d::checkSplitSizes(input_counts, input, size_);
        c10d::checkSplitSizes(output_counts, output, size_);
        if (input.numel() != output.numel())
            refuse("input and output tensor must have the same number of elements");
        task.requests.push_back(moving(DDPRUN_ALL_TO_ALL, task.reads(input), task.writes(output),
                                       static_cast<size_t>(input.numel() / size_)));
        return run(call, std::move(task));
    }
    // Whether the others have equal parts is not known here, so this is one and the same operation in all
    // cases.
    c10d::checkSplitSizes(input_counts, input, size_);
    c10d::checkSplitSizes(output_counts, output, size_);
    const auto count = static_cast<size_t>(size_), own = static_cast<size_t>(rank_);
    std::vector<int64_t> in_lengths(count), in_begins(count), out_lengths(count), out_begins(count);
    c10d::computeLengthsAndOffsets(input_counts, input, &in_lengths, &in_begins);
    c10d::computeLengthsAndOffsets(output_counts, output, &out_lengths, &out_begins);
    if (in_lengths[own] != out_lengths[own]) refuse("this rank's part for itself has two sizes");
    Tensors outputs, inputs;
    for (size_t peer = 0; peer < count; ++peer) {
        outputs.push_back(output.view({-1}).narrow(0, out_begins[peer], out_lengths[peer]));
        inputs.push_back(input.view({-1}).narrow(0, in_begins[peer], in_lengths[peer]));
    }
    add_all_to_all(task, outputs, inputs);
    return run(call, std::move(task));
}

WorkPointer Collectives::barrier(const c10d::BarrierOptions& options) {
    Task task;
    ddprun_request request = DDPRUN_REQUEST_INIT;
    request.operation = DDPRUN_BARRIER;
    task.requests.push_back(request);
    return run({OpType::BARRIER, "ddprun:barrier", options}, std::move(task));
}

}  // namespace app
}  // namespace ddprun
