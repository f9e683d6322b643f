#include "collectives/nccl/nccl_backend.hpp"

#include <fmt/core.h>

#include <cstring>

#include "collectives/call/checked_task.hpp"
#include "rendezvous/system/own_process.hpp"

namespace ddprun::inline detail {
namespace {

// Bytes; an element of every type fits.
constexpr std::size_t kToken = 64;

}  // namespace

NcclBackend::NcclBackend(std::shared_ptr<const CudaPrimaryContext> context, std::shared_ptr<NcclComm> comm,
                         std::unique_ptr<NcclPeers> peers)
    : context_(std::move(context)),
      comm_(std::move(comm)),
      events_(std::make_shared<CudaEventPool>(context_)),
      peers_(std::move(peers)),
      token_(context_, kToken),
      watch_(comm_, *peers_) {
    context_->call("making a CUDA stream", &CudaDriver::stream_create, &stream_, kCudaStreamDefault);
}

NcclBackend::~NcclBackend() {
    watch_.drain(Deadline::max());
    // The others need not wait for a rank that waits for them here.
    peers_->leave();
    if (!ended()) comm_->finish(Deadline::clock::now() + kNcclFinishTimeout);
    if (watch_.stop()) {
        const CudaScope scope(*context_);
        context_->driver().stream_destroy(stream_);
        return;
    }
    // Kernels may run for ever, and freeing would wait for them.
    token_.leak();
    for (CudaMemory& copy : copies_) copy.leak();
}

std::vector<int> NcclBackend::leave(Deadline deadline) {
    if (!watch_.drain(deadline)) {
        throw error_of(peers_->declare(abort_verdict(peers_->rank(), kStartedNotEnded)), "finalize");
    }
    return peers_->leave_together(deadline);
}

void NcclBackend::abort(const std::string& reason) { peers_->declare(abort_verdict(peers_->rank(), reason)); }

void NcclBackend::run(const Task& task) {
    if (task.call.operation == Operation::split) {
        if (peers_->world_size() > 1) return peers_->exchange(task);
        std::memcpy(task.out, task.in, bytes_of(task));
        return;
    }
    const auto work = launch(task);
    work->wait_until(Deadline::max());
    if (const auto error = work->error()) throw *error;
}

std::shared_ptr<NcclWork> NcclBackend::launch(const Task& task) {
    const Operation operation = task.call.operation;
    if (!nccl_op(task.call.reduce))
        refuse(operation, fmt::format("{} is not among NCCL's operations", name_of(task.call.reduce)));
    if (task.call.compression != Compression::none) refuse(operation, "NCCL does not compress");
    const auto stream = task.stream != nullptr ? static_cast<CudaStream>(task.stream) : stream_;
    refuse_capture(task.call, stream);
    const auto now = Deadline::clock::now();
    const auto make_work = [&](const Task& whose) {
        return make_in_process<NcclWork>(events_, watch_.over(), whose, now,
                                         now + peers_->operation_timeout());
    };
    try {
        Task counted = task;
        counted.call = peers_->begin(task.call);
        auto work = make_work(counted);
        watch_.add(work);
        if (counted.in == counted.out && counted.call.operation == Operation::all_to_all &&
            counted.call.count > 0) {
            counted.in = copy_of_input(stream, counted);
            copy_user_ = work;
        }
        const auto result = enqueue_in(stream, counted);
        if (result == NcclResult::success) {
            const CudaEvent event = events_->take();
            context_->call("recording a CUDA event", &CudaDriver::event_record, event, stream);
            work->launched(event);
        } else if (result) {
            watch_.failed(*result);
        }
        return work;
    } catch (const CollectiveError& error) {
        // Either the communicator had ended before begin() could count it, or CUDA refused after that, and the others
        // wait.
        if (error.code() == CollectiveErrorCode::system && !ended()) watch_.failed(error.what());
        auto failed = make_work(task);
        failed->fail(watch_.completed(error));
        return failed;
    }
}

void NcclBackend::refuse_capture(const Call& call, CudaStream stream) const {
    const CudaScope scope(*context_);
    const CudaDriver& driver = context_->driver();
    auto status = CudaCaptureStatus::none;
    if (const CudaResult result = driver.stream_is_capturing(stream, &status);
        result != CudaResult::success) {
        refuse(call.operation, fmt::format("the stream cannot be used: {}", driver.text_of(result)));
    }
    if (status == CudaCaptureStatus::none) return;
    refuse(call.operation,
           "the stream is being captured into a CUDA graph, whose runs could not be watched: call it before "
           "or after the capture");
}

std::optional<NcclResult> NcclBackend::enqueue_in(CudaStream stream, const Task& task) {
    const NcclLibrary& nccl = comm_->library();
    const Call& call = task.call;
    NcclLaunch launch{
        nccl, nullptr, stream, peers_->rank(), peers_->world_size(), *nccl_op(call.reduce), token_.data()};
    const bool scales = is_reduction(call.operation) && call.reduce == ReduceOp::premul_sum && call.count > 0;
    auto result = comm_->call([&](NcclHandle handle) {
        launch.handle = handle;
        if (scales) {
            NcclScalar scalar = nccl_scalar(call.type, task.scalar);
            const NcclResult made =
                nccl.create_premul_sum(&launch.op, scalar.bytes.data(), nccl_type(call.type),
                                       NcclScalarResidence::host_immediate, handle);
            if (made != NcclResult::success) return made;
        }
        return enqueue(launch, task);
    });
    if (scales && result == NcclResult::success) {
        result = comm_->call([&](NcclHandle handle) { return nccl.destroy_op(launch.op, handle); });
    }
    return result;
}

const void* NcclBackend::copy_of_input(CudaStream stream, const Task& task) {
    const std::size_t bytes = bytes_of(task) * static_cast<std::size_t>(peers_->world_size());
    const CudaScope scope(*context_);
    if (copies_.empty() || copies_.back().size() < bytes) {
        copies_.emplace_back(context_, bytes);
    } else if (copy_user_) {
        // It may be in another stream.
        copy_user_->hold_back(stream);
    }
    context_->call("copying the input of all_to_all", &CudaDriver::copy_on_device, copies_.back().pointer(),
                   reinterpret_cast<CudaPointer>(task.in), bytes, stream);
    return copies_.back().data();
}

}  // namespace ddprun::inline detail
