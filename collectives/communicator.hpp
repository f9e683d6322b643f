// Communicator: a fixed set of ranks that run collectives together. Public; standard library only.
//
// Every rank makes one, then all ranks call the same collectives in the same order with matching arguments,
// as with NCCL or MPI: those of operations.hpp, of which it has every one, and groups of sends and receives
// (group.hpp). Calls block until this rank's part is done, and never without limit: a rank that dies, leaves,
// or does not come within the deadline becomes a CollectiveError that names it, on every rank.
//
//   auto comm = ddprun::Communicator::from_env();           // under ddprun, torchrun, mpirun or srun
//   std::vector<float> gradients = …;
//   comm.all_reduce(std::span(gradients), ddprun::ReduceOp::avg);
//
// async() has the same operations in a form that returns a Work at once, while they go on beside the caller:
//
//   ddprun::Work work = comm.async().all_reduce(std::span(gradients), ddprun::ReduceOp::avg);
//   …                                                       // compute something else meanwhile
//   work.wait();
//
// attempt() has them in a form that throws nothing:
//
//   if (const ddprun::Status done = comm.attempt().barrier(); !done.ok()) report(done.text(),
//   done.culprits());
//
// All operations of a communicator, of all forms, are carried out in the order in which they were asked for.
//
// Results are bitwise equal on all ranks. From run to run they are with the same number of ranks, in the same
// placement: the same ranks share hosts, and the same transport carries the data (DDPRUN_TRANSPORT,
// DDPRUN_BACKEND). In another placement the ranks' values are combined in another order, so floating-point
// results may differ in their last bits. With NCCL both hold only where CommunicatorOptions::reproducible is
// set.
//
// Threads: several may call a communicator, but for its moving and destruction; who comes first is first, and
// which calls that are the ranks must agree on as ever. abort() and status() wait for no call. Distinct
// communicators are independent, but that a death ends all of one family (made by split) that the dead rank
// is in. Each has one thread of its own, which only watches for failures, and another from the first use of
// async() on; they block all signals.
//
// Buffers belong to the caller and must stay valid until the operation has ended. Counts are elements, not
// bytes. A count of 0 is allowed everywhere and still synchronises as the operation does. Input and output
// may be the same memory where stated ("in place"); any other overlap is an invalid_argument.
//
// All members throw CollectiveError (see error.hpp): invalid_argument for a wrong call, which leaves the
// communicator usable, and other codes, after which every later call fails at once.
//
// Forked children: a communicator, and each Work, SharedBuffer, Group and the like that comes from it,
// belongs to the process that made it. A child that is forked may destroy its copies, call exit(), and make
// communicators of its own; none of that is noticed by any rank. The library's sockets are closed in it.
// Calls there are an invalid_argument, but those that only ask for the rank, the world and the options.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/key_value_store.hpp"
#include "collectives/operations.hpp"
#include "collectives/options.hpp"
#include "collectives/shared_buffer.hpp"
#include "collectives/status.hpp"
#include "collectives/work.hpp"

namespace ddprun {
inline namespace detail {
struct Session;  // what a communicator owns, and nobody outside the library
class Messenger;
}  // namespace detail
}  // namespace ddprun

#pragma GCC visibility push(default)
namespace ddprun {

class Communicator;
class Group;

// The operations of a communicator as ones that are started; see Communicator::async().
class AsyncOperations final : public Operations<AsyncOperations, Work> {
  public:
    AsyncOperations(Communicator& communicator, void* stream)
        : communicator_(&communicator), stream_(stream) {}

    // The operations are made of this. Throws invalid_argument for a wrong call; all else goes to the Work.
    Work submit(const OperationRequest& request);
    int world_size() const;

  private:
    Communicator* communicator_;
    void* stream_;
};

// The operations of a communicator as ones that return how they ended; see Communicator::attempt().
class AttemptedOperations final : public Operations<AttemptedOperations, Status> {
  public:
    explicit AttemptedOperations(Communicator& communicator) noexcept : communicator_(&communicator) {}

    // The operations are made of this.
    Status submit(const OperationRequest& request) noexcept;
    // 1 where there is none, so that the operations can be asked for, and refused.
    int world_size() const noexcept;

  private:
    Communicator* communicator_;
};

class Communicator final : public Operations<Communicator, void> {
  public:
    // Joins the job this process was started in. Reads, in this order, RANK and WORLD_SIZE (ddprun, torchrun,
    // by hand), OMPI_COMM_WORLD_* (mpirun), PMI_* (MPICH's), SLURM_* (srun); meets at
    // MASTER_ADDR:MASTER_PORT, where rank 0 hosts the store unless the launcher does. Without any of them:
    // one rank alone.
    static Communicator from_env(const CommunicatorOptions& options = {});

    // Joins by a place all ranks know: `tcp://host:port` (rank 0 hosts the store there) or `file:///path` (a
    // file that does not exist yet, on a disk all ranks share). 0 <= rank < world_size.
    static Communicator connect(const std::string& url, int rank, int world_size,
                                const CommunicatorOptions& options = {});

    // Joins over a store of the program's own, and only over that; it lives as long as this communicator and
    // those that come from it. Ranks and store are the same on all ranks; a store may be joined over several
    // times, by all ranks in the same order. Ranks connect by the address that MASTER_ADDR is reached by
    // where that is set, or as DDPRUN_SOCKET_IFNAME and the like say.
    static Communicator join(std::shared_ptr<KeyValueStore> store, int rank, int world_size,
                             const CommunicatorOptions& options = {});

    Communicator(Communicator&&) noexcept;
    Communicator& operator=(Communicator&&) noexcept;
    // Leaves in order; the others see this rank as left, not dead. Waits for operations that were started,
    // and as leave_timeout says; for nothing after finalize().
    ~Communicator();

    int rank() const;
    int world_size() const;
    // Among the ranks on this host. As the launcher says; where it does not, counted by comparing hosts.
    int local_rank() const;
    int local_world_size() const;
    // cpu or nccl.
    BackendChoice backend() const;
    // The CUDA device that the buffers are on; -1 with the backend `cpu`.
    int device() const;

    // Not while another thread is in set_timeout().
    const CommunicatorOptions& options() const;

    // The operations are made of this.
    void submit(const OperationRequest& request);
    // The same operations, started. Valid as long as this object, at this place. With the NCCL backend,
    // `stream` is the CUDA stream (cudaStream_t) in which an operation takes its place, after what is in it
    // and before what comes later; its Work ends when it has. Null, and the calls without async(), mean a
    // stream of the communicator's own, which keeps to CUDA's order with the default stream. A stream that is
    // being captured into a CUDA graph is an invalid_argument, and with other backends any.
    AsyncOperations async(void* stream = nullptr) { return {*this, stream}; }

    // The same operations, as calls that return a Status when this rank's part is done, and never throw. The
    // Status must be looked at: after any failure but invalid_argument the data is undefined. Valid as long
    // as this object, at this place.
    AttemptedOperations attempt() noexcept { return AttemptedOperations(*this); }

    // How the communicator is: ok as long as operations can be asked for, else why it has ended. Never
    // blocks; from any thread, but not during construction, move or destruction. What is ok may have ended a
    // moment later.
    Status status() const noexcept;

    // Messages by tag: beside the order of the operations, from any threads, any number at a time; from and
    // to any rank, itself included. Those of one pair of ranks and one tag arrive in the order in which they
    // were sent; a receive takes the earliest of its tag from `peer`, or with kAnySource from any rank.
    // send_tagged returns when `data` may be written again: small messages go at once, and are kept until
    // they are received; large ones wait for their receive. A timeout below 0 is the operation_timeout; one
    // that runs out, a size that differs from the sent one (mismatch), and a rank that has left without it
    // (peer_left), end that call only. The rest throws as every operation does. Not with the backend `nccl`.
    static constexpr int kAnySource = -1;
    void send_tagged(const void* data, std::size_t bytes, int peer, std::uint64_t tag,
                     std::chrono::milliseconds timeout = std::chrono::milliseconds(-1));
    // Returns who sent it.
    int recv_tagged(void* data, std::size_t bytes, int peer, std::uint64_t tag,
                    std::chrono::milliseconds timeout = std::chrono::milliseconds(-1));
    // The same, started: the buffers must stay until the Work has ended. Work::source() says who sent it.
    // When the communicator ends, receives that go on fail, and sends are waited for as leave_timeout says.
    Work start_send_tagged(const void* data, std::size_t bytes, int peer, std::uint64_t tag,
                           std::chrono::milliseconds timeout = std::chrono::milliseconds(-1));
    Work start_recv_tagged(void* data, std::size_t bytes, int peer, std::uint64_t tag,
                           std::chrono::milliseconds timeout = std::chrono::milliseconds(-1));

    // Calls ended() exactly once, on a thread of the library's: with the reason when the communicator ends by
    // a failure or abort(), or ok when it is finalized or destroyed before. It must not throw. Any thread, as
    // status().
    void on_end(std::function<void(const Status&)> ended);

    // Operations that have no timeout of their own (OperationRequest::timeout) have this one from the next
    // on, those that wait for their turn included. 1 ms at least. A send, recv or group that runs out before
    // a byte of it has moved does not end the communicator: it has not taken place. Any other operation that
    // runs out does.
    void set_timeout(std::chrono::milliseconds operation_timeout);

    // Memory for `count` elements of T that operations use without copying it first, see shared_buffer.hpp.
    // The others hear nothing of it; any thread. Throws also `system`: this rank has no memory; and
    // `invalid_argument` with the backend `nccl`, whose buffers are in the device's memory.
    template <Element T>
    SharedBuffer<T> allocate(std::size_t count) {
        return SharedBuffer<T>(allocate(count, sizeof(T)));
    }
    // True if `data` points into such memory and the other ranks have it mapped. Any thread.
    bool owns(const void* data) const;

    // A new communicator for every colour, of the ranks that gave it, ordered by key, then by rank here; none
    // for a rank whose colour is negative. Called by all ranks; needs no store; takes over the options, and
    // goes by join_timeout for the connecting. The two do not depend on each other: each may end, fail or be
    // destroyed without the other noticing, but for the death of a process. An error whose operation() is
    // "join" ended only the new communicator, and names its culprits by their ranks there, or those that
    // could not take part by their ranks here; the text says which.
    std::optional<Communicator> split(int color, int key = 0);

    // A new communicator of these ranks of this one, in this order, which only they call, with the same list
    // and the same `name`, 1 to 256 bytes, which this communicator has had for no other; as split() else.
    // They meet by messages; more than 32, on several hosts, and those with NCCL, as in shrink(), so that the
    // store must still live. Takes over the options unless others are given (the backend stays). Throws by
    // the ranks' numbers here: timed_out naming those that have not come, or one that has given up; peer_left
    // naming one that has left this one; mismatch naming two that have other lists.
    Communicator subgroup(const std::vector<int>& ranks, const std::string& name);
    Communicator subgroup(const std::vector<int>& ranks, const std::string& name,
                          const CommunicatorOptions& options);

    // A new communicator of the ranks that are not excluded, in their order here; for going on after a
    // failure, when this one has ended:
    //
    //   } catch (const ddprun::CollectiveError& error) {
    //       if (error.code() != ddprun::CollectiveErrorCode::peer_died) throw;
    //       comm = comm.shrink(error.culprits());
    //   }
    //
    // Called by all ranks that go on, with the same `excluded`: any ranks of this communicator but the
    // caller, also none; those may be dead. Works as well while this communicator does, and then leaves it
    // alone. The ranks meet in the store they met in at first; so the launcher, or where rank 0 hosts the
    // store (mpirun, srun, tcp://) a communicator of its process that was made there or comes from that one,
    // must still live. Takes over the options; finding each other and connecting take join_timeout at most.
    // Ranks that were excluded, or are of another restart, cannot join.
    //
    // Throws by the ranks' numbers here: timed_out naming those that have not come, mismatch naming two that
    // exclude different ranks, system where the store is gone; all ranks may then try again. An error whose
    // operation() is "join" ended only the new communicator, and names its culprits by their ranks there.
    Communicator shrink(const std::vector<int>& excluded);

    // Leaves in order, after the operations that were started, and waits until all other ranks have come to
    // their finalize() or destructor; `timeout` at most, options().leave_timeout where none is given; 0 does
    // not wait. Called by all ranks. So nobody goes on, and perhaps ends its process, while others still
    // work. Throws timed_out naming the ranks that have not come; or what the communicator has ended with,
    // also while this rank waits; `aborted` if operations that were started have not ended within `timeout`,
    // which ends them on all ranks. Whatever it throws but invalid_argument, this rank has left: what was its
    // communicator's is freed, every later call is an invalid_argument, but those that only ask for the rank,
    // the world and the options, and the destructor does nothing more. With NCCL, freeing can take 5 s more.
    void finalize();
    void finalize(std::chrono::milliseconds timeout);

    // Ends the communicator on all ranks: their running and later calls fail with code `aborted`, this rank
    // as the culprit, and `reason` in the text. From any thread, but not during construction, move or
    // destruction.
    void abort(const std::string& reason);

    // How the library itself, its tests and split() hand over what they have put together.
    explicit Communicator(std::unique_ptr<Session> session);

  private:
    friend class AsyncOperations;
    friend class Group;
    // Ends a session in the process it belongs to, and only there.
    struct SessionEnd {
        void operator()(Session* session) const noexcept;
    };
    SharedMemory allocate(std::size_t count, std::size_t element);
    Session& session() const;
    Messenger& messenger(const char* name) const;

    std::unique_ptr<Session, SessionEnd> session_;
};

}  // namespace ddprun
#pragma GCC visibility pop
