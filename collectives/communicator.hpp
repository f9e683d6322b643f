// Communicator: a fixed set of ranks that run collectives together. Public; standard library only.
//
// Every rank makes a Communicator, then all ranks call the same collectives in the same order with matching
// arguments, as with NCCL or MPI. The collectives are in operations.hpp; groups of sends and receives are in
// group.hpp. A call blocks until this rank's part is done, but never without limit: a rank that dies, leaves,
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
//   if (const ddprun::Status done = comm.attempt().barrier(); !done.ok())
//       report(done.text(), done.culprits());
//
// All operations of a communicator, of all forms, are carried out in the order in which they were asked for.
//
// Results are bitwise equal on all ranks. Results are also equal from run to run with the same number of
// ranks in the same placement. Placement means which ranks share a host, and which transport carries the data
// (DDPRUN_TRANSPORT, DDPRUN_BACKEND). In another placement the ranks' values are combined in another order,
// so floating-point results may differ in their last bits. With NCCL both hold only where
// CommunicatorOptions::reproducible is set.
//
// Threads: several threads may call a communicator, but must not move or destroy it meanwhile. Calls take
// their turns as they arrive; the program makes sure that the order is the same on all ranks. abort() and
// status() wait for no call. Distinct communicators are independent, except that the death of a rank ends all
// communicators of a family (made by split) which that rank is in. A family has one thread, which only
// watches for failures. Started operations use threads of the process, from the first use of async() on. All
// these threads block all signals.
//
// Buffers belong to the caller and must stay valid until the operation has ended. Counts are elements, not
// bytes. A count of 0 is allowed everywhere and still synchronises as the operation does. Input and output
// may be the same memory where stated ("in place"); any other overlap is an invalid_argument.
//
// All members throw CollectiveError (see error.hpp): invalid_argument for a wrong call, which leaves the
// communicator usable, and other codes, after which every later call fails at once.
//
// Forked children: a communicator, and each Work, SharedBuffer and Group that comes from it, belongs to the
// process that made it. A forked child may destroy its copies, call exit(), and make communicators of its
// own; no rank notices. The library closes its sockets in the child. Calls there are an invalid_argument,
// except those that only ask for the rank, the world and the options.
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
struct Session;  // what a communicator owns; used inside the library only
class Messenger;
}  // namespace detail
}  // namespace ddprun

#pragma GCC visibility push(default)
namespace ddprun {

class Communicator;
class Group;

// AsyncOperations: the operations of a communicator, in the form that starts them; see Communicator::async().
class AsyncOperations final : public Operations<AsyncOperations, Work> {
  public:
    AsyncOperations(Communicator& communicator, void* stream)
        : communicator_(&communicator), stream_(stream) {}

    // Starts the operation; every operation of this class calls submit(). Throws invalid_argument for a wrong
    // call; any other error goes to the Work.
    Work submit(const OperationRequest& request);
    int world_size() const;

  private:
    Communicator* communicator_;
    void* stream_;
};

// AttemptedOperations: the operations of a communicator, in the form that returns how they ended; see
// Communicator::attempt().
class AttemptedOperations final : public Operations<AttemptedOperations, Status> {
  public:
    explicit AttemptedOperations(Communicator& communicator) noexcept : communicator_(&communicator) {}

    // Carries out the operation; every operation of this class calls submit().
    Status submit(const OperationRequest& request) noexcept;
    // Returns 1 where the communicator has been moved from, so that operations can be asked for, and refused.
    int world_size() const noexcept;

  private:
    Communicator* communicator_;
};

class Communicator final : public Operations<Communicator, void> {
  public:
    // Joins the job this process was started in. Reads, in this order, RANK and WORLD_SIZE (ddprun, torchrun,
    // by hand), OMPI_COMM_WORLD_* (mpirun), PMI_* (MPICH's), SLURM_* (srun). The ranks meet at
    // MASTER_ADDR:MASTER_PORT, where rank 0 hosts the store unless the launcher does. Without any of these
    // variables: one rank alone.
    static Communicator from_env(const CommunicatorOptions& options = {});

    // Joins at a place that all ranks know: `tcp://host:port`, where rank 0 hosts the store, or
    // `file:///path`, a file that does not exist yet on a disk all ranks share. 0 <= rank < world_size.
    static Communicator connect(const std::string& url, int rank, int world_size,
                                const CommunicatorOptions& options = {});

    // Joins over a store of the program's own, and only over that store. The communicator, and those that
    // come from it, keep the store alive. All ranks give the same store and the same number of ranks; several
    // joins over one store are made by all ranks in the same order. Ranks connect by the address that
    // MASTER_ADDR is reached by where that is set, or as DDPRUN_SOCKET_IFNAME and the like say.
    static Communicator join(std::shared_ptr<KeyValueStore> store, int rank, int world_size,
                             const CommunicatorOptions& options = {});

    Communicator(Communicator&&) noexcept;
    Communicator& operator=(Communicator&&) noexcept;
    // Leaves in order: the other ranks see this rank as left, not dead. Waits for operations that were
    // started. Waits leave_timeout at most for sends by tag that were started, and, where this rank hosts the
    // store, for the other ranks to leave. After finalize() the destructor waits for nothing.
    ~Communicator();

    int rank() const;
    int world_size() const;
    // Returns this rank's number among the ranks on this host: as the launcher says, else counted by
    // comparing hosts.
    int local_rank() const;
    int local_world_size() const;
    // Returns cpu or nccl, never automatic.
    BackendChoice backend() const;
    // Returns the CUDA device that the buffers are on; -1 with the backend `cpu`.
    int device() const;

    // Returns the options in force. Must not be called while another thread is in set_timeout().
    const CommunicatorOptions& options() const;

    // Carries out the operation; every operation of this class calls submit().
    void submit(const OperationRequest& request);
    // Returns the operations in the form that starts them. The result is valid while this communicator exists
    // and is not moved.
    //
    // With the NCCL backend, `stream` is the CUDA stream (cudaStream_t) in which an operation takes its
    // place: after what is in the stream already, before what comes later. The Work ends when the operation
    // has. A null stream, and the calls without async(), mean a stream of the communicator's own, which keeps
    // to CUDA's order with the default stream. A stream that is being captured into a CUDA graph is an
    // invalid_argument; with other backends any stream but null is.
    AsyncOperations async(void* stream = nullptr) { return {*this, stream}; }

    // Returns the operations in the form that never throws: each returns a Status when this rank's part is
    // done. The Status must be looked at: after any failure but invalid_argument the data is undefined. The
    // result is valid while this communicator exists and is not moved.
    AttemptedOperations attempt() noexcept { return AttemptedOperations(*this); }

    // Returns ok as long as operations can be asked for, else why the communicator has ended. Never blocks.
    // Any thread, but not during construction, move or destruction. A communicator that is ok may end a
    // moment later.
    Status status() const noexcept;

    // kAnySource: any rank, as `peer` of a receive by tag.
    static constexpr int kAnySource = -1;
    // Sends a message by tag. Messages by tag go beside the order of the operations: from any threads, any
    // number at a time, from and to any rank, this one included. Messages of one pair of ranks and one tag
    // arrive in the order in which they were sent. A receive takes the earliest message of its tag from
    // `peer`, or with kAnySource from any rank.
    //
    // send_tagged() returns when `data` may be written again. Small messages go at once, and are kept until
    // they are received; large ones wait for their receive. A negative timeout means the operation_timeout.
    // Three errors end that call only: a timeout that runs out, a size that differs from the sent one
    // (mismatch), and a peer that has left without the message (peer_left). Other errors are those of every
    // operation. Not with the backend `nccl`.
    void send_tagged(const void* data, std::size_t bytes, int peer, std::uint64_t tag,
                     std::chrono::milliseconds timeout = std::chrono::milliseconds(-1));
    // Returns the rank that sent the message.
    int recv_tagged(void* data, std::size_t bytes, int peer, std::uint64_t tag,
                    std::chrono::milliseconds timeout = std::chrono::milliseconds(-1));
    // Starts a send or a receive by tag: the buffers must stay until the Work has ended. Work::source() says
    // which rank sent the message. When the communicator ends, receives that go on fail, and sends are waited
    // for as leave_timeout says.
    Work start_send_tagged(const void* data, std::size_t bytes, int peer, std::uint64_t tag,
                           std::chrono::milliseconds timeout = std::chrono::milliseconds(-1));
    Work start_recv_tagged(void* data, std::size_t bytes, int peer, std::uint64_t tag,
                           std::chrono::milliseconds timeout = std::chrono::milliseconds(-1));

    // Calls ended() exactly once, on a thread of the library. When the communicator ends by a failure or
    // abort(), ended() gets the reason; when it is finalized or destroyed before, ok. ended() must not throw.
    // Any thread, as for status().
    void on_end(std::function<void(const Status&)> ended);

    // Sets the timeout of operations that have none of their own (OperationRequest::timeout), from the next
    // on, those that wait for their turn included. 1 ms at least. A send, recv or group that runs out before
    // a byte of it has moved has not taken place, and the communicator lives on. Any other operation that
    // runs out ends the communicator.
    void set_timeout(std::chrono::milliseconds operation_timeout);

    // Returns memory for `count` elements of T that operations use without copying it first, see
    // shared_buffer.hpp. The other ranks take no part. Any thread. Also throws `system` where this rank has
    // no memory, and `invalid_argument` with the backend `nccl`, which has its buffers in the device's
    // memory.
    template <Element T>
    SharedBuffer<T> allocate(std::size_t count) {
        return SharedBuffer<T>(allocate(count, sizeof(T)));
    }
    // Returns true if `data` points into memory of allocate() that the other ranks have mapped. Any thread.
    bool owns(const void* data) const;

    // Makes a new communicator for every colour, of the ranks that gave that colour, ordered by key, then by
    // rank here; none for a rank with a negative colour. Called by all ranks; needs no store. The new
    // communicator takes over the options; connecting takes join_timeout at most. Old and new communicator do
    // not depend on each other: either may end, fail or be destroyed without an effect on the other. Only the
    // death of a process ends every communicator that the process is in. An error with operation() "join"
    // ended only the new communicator. The culprits are ranks of the new communicator, or, for ranks that
    // could not take part, ranks of this one; the text says which.
    std::optional<Communicator> split(int color, int key = 0);

    // Makes a new communicator of the listed ranks of this one, in the list's order. Only those ranks call
    // it, all with the same list and the same `name`: 1 to 256 bytes, which this communicator has used for no
    // other. Else as split().
    //
    // The ranks meet by messages. More than 32 ranks that are on several hosts, and ranks with NCCL, meet as
    // in shrink(): their store must still live. The new communicator takes over the options unless others are
    // given; the backend stays. Errors name ranks by their numbers here. timed_out names those that have not
    // come, or one that has given up. peer_left names one that has left this communicator, mismatch two that
    // have different lists.
    Communicator subgroup(const std::vector<int>& ranks, const std::string& name);
    Communicator subgroup(const std::vector<int>& ranks, const std::string& name,
                          const CommunicatorOptions& options);

    // Makes a new communicator of the ranks that are not excluded, in their order here, to go on after a
    // failure has ended this one:
    //
    //   } catch (const ddprun::CollectiveError& error) {
    //       if (error.code() != ddprun::CollectiveErrorCode::peer_died) throw;
    //       comm = comm.shrink(error.culprits());
    //   }
    //
    // Called by all ranks that go on, with the same `excluded`: any ranks of this communicator but the
    // caller, also none; excluded ranks may be dead. A communicator that still works may be shrunk, too, and
    // works on.
    //
    // The ranks meet in the store they met in at first, which must still live. Where rank 0 hosts the store
    // (mpirun, srun, tcp://), the store lives as long as a communicator of rank 0's process that was made
    // there or comes from that one. The new communicator takes over the options; finding each other and
    // connecting take join_timeout at most. Ranks that were excluded, or are of another restart, cannot join.
    //
    // Errors name ranks by their numbers here: timed_out names those that have not come, mismatch two that
    // exclude different ranks, and system says that the store is gone. After each of the three, all ranks may
    // try again. An error with operation() "join" ended only the new communicator, and names its culprits by
    // their ranks there.
    Communicator shrink(const std::vector<int>& excluded);

    // Leaves in order, after the operations that were started, and waits until all other ranks have come to
    // their finalize() or destructor. Thus no rank goes on, or ends its process, while others still work.
    // Called by all ranks. Waits `timeout` at most, options().leave_timeout where none is given; 0 does not
    // wait.
    //
    // Throws timed_out, with the ranks that have not come. Throws what the communicator has ended with, also
    // while this rank waits. Throws `aborted` if operations that were started have not ended within
    // `timeout`: they then end on all ranks. After finalize(), also if it throws anything but
    // invalid_argument, this rank has left. What the communicator owned is freed; with NCCL, freeing can take
    // 5 s more. Every later call is an invalid_argument, except those that only ask for the rank, the world
    // and the options, and the destructor does nothing more.
    void finalize();
    void finalize(std::chrono::milliseconds timeout);

    // Ends the communicator on all ranks: their running and later calls fail with code `aborted`, this rank
    // as the culprit, and `reason` in the text. Any thread, but not during construction, move or destruction.
    void abort(const std::string& reason);

    // Takes over what the library itself, its tests and split() have put together.
    explicit Communicator(std::unique_ptr<Session> session);

  private:
    friend class AsyncOperations;
    friend class Group;
    // SessionEnd ends a session in the process that the session belongs to, and only there.
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
