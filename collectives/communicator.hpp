// Communicator: a fixed set of ranks that run collectives together. Public; standard library only.
//
// Every rank makes one, then all ranks call the same collectives in the same order with matching arguments,
// as with NCCL or MPI. Calls block until this rank's part is done, and never without limit: a rank that dies,
// leaves, or does not come within the deadline becomes a CollectiveError that names it, on every rank.
//
//   auto comm = ddprun::Communicator::from_env();           // under ddprun, torchrun, mpirun or srun
//   std::vector<float> gradients = …;
//   comm.all_reduce(std::span(gradients), ddprun::ReduceOp::avg);
//
// Results are bitwise equal on all ranks, and from run to run for the same number of ranks and elements.
//
// Threads: a communicator is used by one thread at a time (a second one gets invalid_argument); abort() may
// be called from any thread. Distinct communicators are independent. Each has one thread of its own, which
// only watches for failures; it blocks all signals.
//
// Buffers belong to the caller and must stay valid during the call. Counts are elements, not bytes. A count
// of 0 is allowed everywhere and still synchronises as the operation does. Input and output may be the same
// memory where stated ("in place"); any other overlap is an invalid_argument.
//
// All members throw CollectiveError (see error.hpp): invalid_argument for a wrong call, which leaves the
// communicator usable, and other codes, after which every later call fails at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "collectives/error.hpp"
#include "collectives/types.hpp"

namespace ddprun {

struct CommunicatorOptions {
    // One operation, from its call to its return.
    std::chrono::milliseconds operation_timeout = std::chrono::minutes(5);
    // Making the communicator: finding the store, waiting for all ranks, connecting.
    std::chrono::milliseconds join_timeout = std::chrono::minutes(5);
    // How long rank 0 waits in its destructor for the others to leave, where it hosts the store (mpirun,
    // srun, tcp://).
    std::chrono::milliseconds leave_timeout = std::chrono::seconds(10);
};

class Communicator {
  public:
    // Joins the job this process was started in. Reads, in this order, RANK and WORLD_SIZE (ddprun, torchrun,
    // by hand), OMPI_COMM_WORLD_* (mpirun), SLURM_* (srun); meets at MASTER_ADDR:MASTER_PORT, where rank 0
    // hosts the store unless the launcher does. Without any of them: one rank alone.
    static Communicator from_env(const CommunicatorOptions& options = {});

    // Joins by a place all ranks know: `tcp://host:port` (rank 0 hosts the store there) or `file:///path` (a
    // file that does not exist yet, on a disk all ranks share). 0 <= rank < world_size.
    static Communicator connect(const std::string& url, int rank, int world_size,
                                const CommunicatorOptions& options = {});

    Communicator(Communicator&&) noexcept;
    Communicator& operator=(Communicator&&) noexcept;
    // Leaves in order; the others see this rank as left, not dead. Waits only as leave_timeout says.
    ~Communicator();

    int rank() const;
    int world_size() const;
    // Among the ranks on this host. As the launcher says; where it does not, counted by comparing hosts.
    int local_rank() const;
    int local_world_size() const;

    // Reductions take a ReduceOp, or premul_sum(scalar); invalid_argument where the operation has no meaning
    // for the type.
    //
    // data[i] of every rank becomes the reduction over all ranks' data[i].
    template <Element T, std::size_t N>
    void all_reduce(std::span<T, N> data, const Reduction& op) {
        all_reduce(data.data(), data.data(), data.size(), data_type_of<T>(), op);
    }

    // The same from `in` to `out`, of equal sizes.
    template <Element T, std::size_t N>
    void all_reduce(std::span<const std::type_identity_t<T>> in, std::span<T, N> out, const Reduction& op) {
        require_equal("all_reduce", in.size(), out.size());
        all_reduce(in.data(), out.data(), out.size(), data_type_of<T>(), op);
    }

    // data of every rank becomes the root's.
    template <Element T, std::size_t N>
    void broadcast(std::span<T, N> data, int root) {
        broadcast(data.data(), data.size(), data_type_of<T>(), root);
    }

    // out, world_size() times as long as `in`, becomes all ranks' `in` in rank order. In place when `in` is
    // this rank's part of `out`.
    template <Element T, std::size_t N>
    void all_gather(std::span<const std::type_identity_t<T>> in, std::span<T, N> out) {
        require_world_multiple("all_gather", out.size(), in.size());
        all_gather(in.data(), out.data(), in.size(), data_type_of<T>());
    }

    // `in`, world_size() times as long as `out`, is reduced over all ranks; out becomes this rank's part of
    // the result. In place when `out` is this rank's part of `in`.
    template <Element T, std::size_t N>
    void reduce_scatter(std::span<const std::type_identity_t<T>> in, std::span<T, N> out,
                        const Reduction& op) {
        require_world_multiple("reduce_scatter", in.size(), out.size());
        reduce_scatter(in.data(), out.data(), out.size(), data_type_of<T>(), op);
    }

    // out of the root becomes the reduction over all ranks' `in`, of equal sizes; the other ranks' `out` is
    // ignored. In place when both are the same.
    template <Element T, std::size_t N>
    void reduce(std::span<const std::type_identity_t<T>> in, std::span<T, N> out, const Reduction& op,
                int root) {
        if (rank() == root) require_equal("reduce", in.size(), out.size());
        reduce(in.data(), out.data(), in.size(), data_type_of<T>(), op, root);
    }

    // The same in place; the other ranks' data stays as it is.
    template <Element T, std::size_t N>
    void reduce(std::span<T, N> data, const Reduction& op, int root) {
        reduce(data.data(), data.data(), data.size(), data_type_of<T>(), op, root);
    }

    // out of the root, world_size() times as long as `in`, becomes all ranks' `in` in rank order; the other
    // ranks' `out` is ignored. In place when the root's `in` is its part of `out`.
    template <Element T, std::size_t N>
    void gather(std::span<const std::type_identity_t<T>> in, std::span<T, N> out, int root) {
        if (rank() == root) require_world_multiple("gather", out.size(), in.size());
        gather(in.data(), out.data(), in.size(), data_type_of<T>(), root);
    }

    // out of rank r becomes the r-th part of the root's `in`, which is world_size() times as long; the other
    // ranks' `in` is ignored. In place when the root's `out` is its part of `in`.
    template <Element T, std::size_t N>
    void scatter(std::span<const std::type_identity_t<T>> in, std::span<T, N> out, int root) {
        if (rank() == root) require_world_multiple("scatter", in.size(), out.size());
        scatter(in.data(), out.data(), out.size(), data_type_of<T>(), root);
    }

    // Both of equal size, with a part for each rank: part s of rank r's `in` becomes part r of rank s's
    // `out`. In place when both are the same.
    template <Element T, std::size_t N>
    void all_to_all(std::span<const std::type_identity_t<T>> in, std::span<T, N> out) {
        const std::size_t part = out.size() / static_cast<std::size_t>(world_size());
        require_equal("all_to_all", in.size(), out.size());
        require_world_multiple("all_to_all", out.size(), part);
        all_to_all(in.data(), out.data(), part, data_type_of<T>());
    }

    // Returns when all ranks have called it.
    void barrier();

    // To one other rank, which must call recv with the same type and size. Returns when `data` may be changed
    // again, which can be before or after the peer's recv: two ranks that both send first may wait for each
    // other.
    template <class T, std::size_t N>
    requires Element<std::remove_const_t<T>>
    void send(std::span<T, N> data, int peer) {
        send(data.data(), data.size(), data_type_of<std::remove_const_t<T>>(), peer);
    }

    template <Element T, std::size_t N>
    void recv(std::span<T, N> data, int peer) {
        recv(data.data(), data.size(), data_type_of<T>(), peer);
    }

    // The untyped core beneath. `count` is elements: of each rank's share for all_gather and gather (`in`),
    // reduce_scatter and scatter (`out`) and all_to_all, of the whole buffer otherwise. Pointers may be null
    // only when count is 0 or the buffer is ignored, and are aligned for the type.
    void all_reduce(const void* in, void* out, std::size_t count, DataType type, const Reduction& op);
    void broadcast(void* data, std::size_t count, DataType type, int root);
    void all_gather(const void* in, void* out, std::size_t count, DataType type);
    void reduce_scatter(const void* in, void* out, std::size_t count, DataType type, const Reduction& op);
    void reduce(const void* in, void* out, std::size_t count, DataType type, const Reduction& op, int root);
    void gather(const void* in, void* out, std::size_t count, DataType type, int root);
    void scatter(const void* in, void* out, std::size_t count, DataType type, int root);
    void all_to_all(const void* in, void* out, std::size_t count, DataType type);
    void send(const void* data, std::size_t count, DataType type, int peer);
    void recv(void* data, std::size_t count, DataType type, int peer);

    // A new communicator for every colour, of the ranks that gave it, ordered by key, then by rank here; none
    // for a rank whose colour is negative. Called by all ranks; needs no store; takes over the options, and
    // goes by join_timeout for the connecting. The two do not depend on each other: each may end, fail or be
    // destroyed without the other noticing, but for the death of a process. An error whose operation() is
    // "join" ended only the new communicator, and names its culprits by their ranks there, or those that
    // could not take part by their ranks here; the text says which.
    std::optional<Communicator> split(int color, int key = 0);

    // Ends the communicator on all ranks: their running and later calls fail with code `aborted`, this rank
    // as the culprit, and `reason` in the text. From any thread, but not during construction, move or
    // destruction.
    void abort(const std::string& reason);

    // How the library itself, its tests and split() hand over what they have put together.
    struct Session;
    explicit Communicator(std::unique_ptr<Session> session);

  private:
    Session& session() const;
    void require_equal(const char* operation, std::size_t in, std::size_t out) const;
    void require_world_multiple(const char* operation, std::size_t whole, std::size_t part) const;

    std::unique_ptr<Session> session_;
};

}  // namespace ddprun
