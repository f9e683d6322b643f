// Collectives are the collective operations of torch's Backend over the library's.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "apps/python/ddprun/torch/extension/operation.hpp"
#include "collectives/ddprun_collectives.h"

namespace ddprun {
inline namespace app {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

// Calling is how an operation was asked for.
struct Calling {
    c10d::OpType type;
    const char* title;  // as profilers show it
    bool async;
    Milliseconds timeout;

    template <class Options>
    Calling(c10d::OpType kind, const char* name, const Options& options)
        : type(kind), title(name), async(options.asyncOp), timeout(options.timeout) {}
};

class Collectives : public c10d::Backend {
  public:
    using Backend::Backend;

    WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
    WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
    WorkPointer allreduce_coalesced(Tensors& tensors,
                                    const c10d::AllreduceCoalescedOptions& options) override;
    WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
    WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
    WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                          const c10d::AllgatherOptions& options) override;
    WorkPointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& options) override;
    // NOLINTNEXTLINE(bugprone-reserved-identifier): torch's name
    WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                                const c10d::AllgatherOptions& options) override;
    WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                const c10d::AllgatherOptions& options) override;
    WorkPointer gather(std::vector<Tensors>& outputs, Tensors& inputs,
                       const c10d::GatherOptions& options) override;
    // Overrides from torch 2.14 on.
    WorkPointer gather_into_tensor(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options);
    WorkPointer scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                        const c10d::ScatterOptions& options) override;
    WorkPointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                               const c10d::ReduceScatterOptions& options) override;
    // NOLINTNEXTLINE(bugprone-reserved-identifier): torch's name
    WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                     const c10d::ReduceScatterOptions& options) override;
    WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                const c10d::ReduceScatterOptions& options) override;
    WorkPointer alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
    WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_counts,
                              std::vector<int64_t>& input_counts,
                              const c10d::AllToAllOptions& options) override;
    WorkPointer barrier(const c10d::BarrierOptions& options) override;
    // Does nothing: the number begins at 0 everywhere; TORCH_DISTRIBUTED_DEBUG=DETAIL asks for it before
    // torch 2.13.
    void setSequenceNumberForGroup() override {}
    uint64_t getSequenceNumberForGroup() override { return sequence_.load(); }

  protected:
    // Throws where there is no communicator, or none any more.
    ddprun_communicator* communicator() const;
    // Carries out the task: in the calling thread if that waits for it.
    WorkPointer run(const Calling& call, Task task);
    // Keeps the flight until it has landed, since its memory may have no other holder.
    void remember(const std::shared_ptr<Flight>& flight);
    // Forgets all flights: nothing is in flight any more.
    void forget() noexcept;

    // communicator_ is shared with those memory blocks that were allocated in it.
    std::shared_ptr<ddprun_communicator> communicator_;
    const std::shared_ptr<Calls> calls_ = std::make_shared<Calls>();
    std::atomic<uint64_t> sequence_{0};

  private:
    void start(Operation& operation, const Calling& call);
    at::Tensor gather_blocks(const at::Tensor& block);

    std::mutex flying_lock_;
    std::vector<std::shared_ptr<Flight>> flying_;
};

}  // namespace app
}  // namespace ddprun
