// SoloBackend: the operations of a communicator of one rank, which are copies. Needs no store, no sockets, no
// thread.
#pragma once

#include <mutex>
#include <optional>

#include "collectives/backend.hpp"
#include "collectives/call.hpp"
#include "collectives/verdict.hpp"

namespace ddprun {

class SoloBackend final : public Backend {
  public:
    void all_reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) override;
    void broadcast(void* data, std::size_t count, DataType type, int root) override;
    void all_gather(const void* in, void* out, std::size_t count, DataType type) override;
    void reduce_scatter(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) override;
    void barrier() override;
    // There is no peer; Communicator refuses such calls before they come here.
    void send(const void* data, std::size_t count, DataType type, int peer) override;
    void recv(void* data, std::size_t count, DataType type, int peer) override;
    void reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op, int root) override;
    void gather(const void* in, void* out, std::size_t count, DataType type, int root) override;
    void scatter(const void* in, void* out, std::size_t count, DataType type, int root) override;
    void all_to_all(const void* in, void* out, std::size_t count, DataType type) override;
    void exchange(const void* in, void* out, std::size_t bytes) override;
    void abort(const std::string& reason) override;
    bool ended() const override;

  private:
    void enter(Operation operation, std::size_t count, DataType type);

    std::uint64_t sequence_ = 0;
    mutable std::mutex mutex_;  // guards the verdict: abort() comes from any thread
    std::optional<Verdict> verdict_;
};

}  // namespace ddprun
