// Group is what `ddprun` is to torch.distributed. Here are messages, membership and the end; Collectives has
// the rest.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "apps/python/ddprun/torch/extension/abort_hooks.hpp"
#include "apps/python/ddprun/torch/extension/collectives.hpp"

namespace ddprun {
inline namespace app {

class Group final : public Collectives {
  public:
    struct Options : Backend::Options {
        explicit Options(Milliseconds limit) : Backend::Options("ddprun", limit) {}
        // Overrides from torch 2.14 on.
        c10::intrusive_ptr<Backend::Options> clone() const { return c10::make_intrusive<Options>(*this); }
    };

    // Group meets over `store` or, with a parent, over the parent's connections; `ranks` are then the
    // members' ranks in the parent. With `later` the ranks meet only in reconfigure(). Throws RankError.
    Group(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<Options> options,
          const Group* parent = nullptr, const std::vector<int>& ranks = {}, bool later = false);
    ~Group() override;

    const std::string getBackendName() const override { return "ddprun"; }
    c10::intrusive_ptr<Backend::Options> getBackendOptions() override { return options_; }
    const c10::intrusive_ptr<Options>& options() const { return options_; }
    void setTimeout(Milliseconds timeout) override;

    // Allocates memory that operations of this group use without copying it first (allocateTensor()). DDP
    // lays its buckets there, torch.distributed.fsdp if told. The CPU's device number is negative.
    bool supportsTensorAlloc(c10::DeviceIndex device) override { return device < 0 && communicator_; }
    at::Tensor allocateTensor(long size, at::TensorOptions options) override;
    bool owns(const at::Tensor& tensor) const { return ddprun_owns(communicator(), tensor.data_ptr()) == 1; }

    WorkPointer send(Tensors& tensors, int peer, int tag) override;
    WorkPointer recv(Tensors& tensors, int peer, int tag) override;
    WorkPointer recvAnysource(Tensors& tensors, int tag) override;
    void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

    bool supportsSplitting() const override { return true; }
    c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                      const std::vector<int>& ranks,
                                      const c10::intrusive_ptr<Backend::Options>& options) override;
    c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                      const c10::intrusive_ptr<Backend::Options>& options, const int& rank,
                                      const int& size) override;
    // Overrides from torch 2.9 or later on, as they came.
    bool supportsShrinking() const { return true; }
    c10::intrusive_ptr<Backend> shrink(const std::vector<int64_t>& excluded, int flags,
                                       const c10::intrusive_ptr<Backend::Options>& options);
#ifdef C10D_BACKEND_HAS_RECONFIGURE
    bool supportsReconfigure() const override { return true; }
    c10d::ReconfigureHandle get_reconfigure_handle() const override { return handle_; }
    WorkPointer reconfigure(const c10d::ReconfigureOptions& options) override;
#endif

#ifdef C10D_BACKEND_HAS_HOOKS
    bool supportsAbortHooks() const { return true; }  // likewise, from a later torch than the hooks
    void registerAbortHook(int64_t id, c10d::AbortHook hook) override { hooks_->add(id, std::move(hook)); }
    void unregisterAbortHook(int64_t id) override { hooks_->remove(id); }
#endif

    c10d::ErrorType getError() override;
    bool lives() const { return communicator_ && ddprun_status(communicator_.get()) == DDPRUN_OK; }
    void abort() override;
    void shutdown() override;
    // Waits until no thread of the library makes calls for works of this group, ten seconds at most. Not to
    // be called with Python's lock.
    void await_calls();
    // Does the same when Python ends: no hook of torch's begins any more.
    void end_calls();

  private:
    // Group of a communicator that is there already.
    Group(c10::intrusive_ptr<c10d::Store> store, ddprun_communicator* made,
          c10::intrusive_ptr<Options> options);
    void take(ddprun_communicator* made);
    WorkPointer message(c10d::OpType type, const char* title, Tensors& tensors, int peer, uint64_t tag,
                        Milliseconds limit);
    void hear_all(uint64_t tag, Milliseconds limit, bool wait_all_ranks);
    void answer_monitor(uint64_t tag, Milliseconds limit);
    void leave();

    const c10::intrusive_ptr<c10d::Store> store_;
    const c10::intrusive_ptr<Options> options_;
    uint64_t monitored_ = 0;
    std::string handle_;
    const std::shared_ptr<AbortHooks> hooks_ = std::make_shared<AbortHooks>();
};

}  // namespace app
}  // namespace ddprun
