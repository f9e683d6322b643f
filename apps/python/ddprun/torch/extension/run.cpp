// How operations are carried out; and the one that is made of several.
#include <algorithm>
#include <iterator>

#include "apps/python/ddprun/torch/extension/collectives.hpp"
#include "apps/python/ddprun/torch/extension/requests.hpp"

namespace ddprun {
inline namespace app {
ddprun_communicator* Collectives::communicator() const {
    TORCH_CHECK(communicator_ != nullptr,
                "ddprun: this process group is not connected: it was shut down, or waits for reconfigure()");
    return communicator_.get();
}

void Collectives::remember(const std::shared_ptr<Flight>& flight) {
    constexpr size_t kMany = 64;
    std::vector<std::shared_ptr<Flight>> landed;  // let go outside the lock, since that can take Python's
    flight->calls = calls_;
    const std::lock_guard lock(flying_lock_);
    // What many receives wait for is not looked at each time.
    if (flying_.size() < kMany || flying_.size() == flying_.capacity()) {
        const auto first =
            std::partition(flying_.begin(), flying_.end(), [](const auto& each) { return !each->landed(); });
        landed.assign(std::make_move_iterator(first), std::make_move_iterator(flying_.end()));
        flying_.erase(first, flying_.end());
    }
    flying_.push_back(flight);
}

void Collectives::forget() noexcept {
    std::vector<std::shared_ptr<Flight>> landed;
    const std::lock_guard lock(flying_lock_);
    landed.swap(flying_);
}

void Collectives::start(Operation& operation, const Calling& call) {
    remember(operation.flight());
    for (ddprun_request request : operation.task().requests) {
        if (call.timeout != c10d::kUnsetTimeout) request.timeout_ms = call.timeout.count();
        ddprun_work* work = nullptr;
        require(ddprun_start(communicator(), &request, &work));
        operation.flight()->works.push_back(work);
    }
}

WorkPointer Collectives::run(const Calling& call, Task task) {
    ddprun_communicator* comm = communicator();
    auto operation = c10::make_intrusive<Operation>(rank_, call.type, call.title, ++sequence_, call.timeout,
                                                    std::move(task));
    const Task& kept = operation->task();
    if (call.async || call.timeout != c10d::kUnsetTimeout) {
        start(*operation, call);
        if (!call.async) operation->wait();
        return operation;
    }
    std::exception_ptr failure;
    for (const ddprun_request& request : kept.requests) {
        if (const int code = ddprun_run(comm, &request); code != DDPRUN_OK) {
            failure = last_failure(code);
            break;
        }
    }
    operation->end(failure);
    if (failure) std::rethrow_exception(failure);
    return operation;
}

// Each rank's block, one below the other.
at::Tensor Collectives::gather_blocks(const at::Tensor& block) {
    std::vector<int64_t> shape = block.sizes().vec();
    shape.insert(shape.begin(), size_);
    at::Tensor all = at::empty(shape, block.options());
    const at::Tensor in = block.contiguous();
    const ddprun_request request = moving(DDPRUN_ALL_GATHER, in, all, static_cast<size_t>(in.numel()));
    require(ddprun_run(communicator(), &request));
    return all;
}

// What comes second depends on what comes first, so that it is carried out in the calling thread in all
// cases.
WorkPointer Collectives::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
    const Refusal refuse = refusal("all_reduce");
    if (options.reduceOp != c10d::ReduceOp::SUM)
        refuse("unsupported reduction operation (allreduce of sparse tensors only works with ReduceOp.SUM)");
    const at::AutoDispatchBelowAutograd raw;
    at::Tensor mine = tensors[0];
    for (size_t i = 1; i < tensors.size(); ++i) mine = mine + tensors[i];
    mine = mine.coalesce();
    constexpr int64_t kMostDimensions = 61;
    std::vector<int64_t> about{mine._nnz(), mine.sparse_dim(), mine.dense_dim()};
    if (mine.dim() > kMostDimensions) refuse("too many dimensions");
    about.insert(about.end(), mine.sizes().begin(), mine.sizes().end());
    about.resize(static_cast<size_t>(kMostDimensions) + 3);
    const at::Tensor all = gather_blocks(at::tensor(about, at::kLong));
    const at::Tensor shapes = all.narrow(1, 1, all.size(1) - 1);
    TORCH_CHECK(shapes.eq(shapes[0]).all().item<bool>(), "Sparse dimensions do not match");
    const int64_t most = all.select(1, 0).max().item<int64_t>();
    // As long as the longest one everywhere: each rank's part has the same size.
    at::Tensor indices = at::zeros({mine.sparse_dim(), most}, at::kLong);
    indices.narrow(1, 0, mine._nnz()).copy_(mine.indices());
    std::vector<int64_t> shape = mine.values().sizes().vec();
    shape[0] = most;
    at::Tensor values = at::zeros(shape, mine.values().options());
    values.narrow(0, 0, mine._nnz()).copy_(mine.values());
    const at::Tensor all_indices = gather_blocks(indices);
    const at::Tensor all_values = gather_blocks(values);
    at::Tensor sum;
    for (int64_t rank = 0; rank < size_; ++rank) {
        const int64_t count = all[rank][0].item<int64_t>();
        const at::Tensor part =
            at::sparse_coo_tensor(all_indices[rank].narrow(1, 0, count), all_values[rank].narrow(0, 0, count),
                                  mine.sizes(), mine.options());
        sum = sum.defined() ? sum + part : part;
    }
    sum = sum.coalesce();
    Task task;
    task.outputs = {tensors};
    task.inputs = tensors;
    for (const at::Tensor& tensor : tensors) task.copies.emplace_back(tensor, sum);
    auto operation =
        c10::make_intrusive<Operation>(rank_, c10d::OpType::_ALLREDUCE_SPARSE, "ddprun:sparse_all_reduce",
                                       ++sequence_, options.timeout, std::move(task));
    operation->end(nullptr);
    return operation;
}

}  // namespace app
}  // namespace ddprun
