// Group: sends and receives that go on at the same time. Public; standard library only.
//
// Where several ranks send and receive one after the other, each must know in which order, or they wait for
// each other. In a group the order does not matter: a ring, all to all, neighbours on a grid.
//
//   ddprun::Group group(comm);
//   group.send(std::span(mine), right);
//   group.recv(std::span(theirs), left);
//   group.run();                                            // returns when both are through
//
// A group is like ncclGroupStart and ncclGroupEnd around ncclSend and ncclRecv, and like MPI_Sendrecv with
// any number of peers:
// - All transfers of a group make progress at the same time, so no order of adding them can make the group
//   wait for itself.
// - Between two ranks, the i-th send of one is what the i-th receive of the other gets, in the order in which
//   they were added, of the same type and size. The peer may have its transfer in a group, in a group with
//   others, or as a plain send or recv.
// - A group takes its place among the operations of its communicator as one operation, with one
//   operation_timeout. Nothing is sent before its turn.
//
// An object belongs to one thread at a time; several groups may be filled at the same time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "collectives/communicator.hpp"

namespace ddprun {
inline namespace detail {
struct Task;
}  // namespace detail
}  // namespace ddprun

namespace ddprun {

#pragma GCC visibility push(default)

// kMaxGroupTransfers: the most transfers in one group.
inline constexpr std::size_t kMaxGroupTransfers = 65'536;

class Group {
  public:
    // Borrows the communicator, which must stay where it is.
    explicit Group(Communicator& communicator) noexcept;
    Group(Group&&) noexcept;
    Group& operator=(Group&&) noexcept;
    // Drops what was added and not run; no other rank hears of it. The destructor does not run the group,
    // because it could not throw what goes wrong, and because a group that an exception destroys is often
    // half full.
    ~Group();

    // Adds a transfer to or from another rank; arguments as of Communicator's send and recv. Throws
    // invalid_argument as those do, and for more than kMaxGroupTransfers; the group is as before then.
    template <class T, std::size_t N>
    requires Element<std::remove_const_t<T>>
    void send(std::span<T, N> data, int peer) {
        send(data.data(), data.size(), data_type_of<std::remove_const_t<T>>(), peer);
    }
    template <Element T, std::size_t N>
    void recv(std::span<T, N> data, int peer) {
        recv(data.data(), data.size(), data_type_of<T>(), peer);
    }
    void send(const void* data, std::size_t count, DataType type, int peer);
    void recv(void* data, std::size_t count, DataType type, int peer);

    // Returns the number of transfers that were added.
    std::size_t size() const noexcept;
    bool empty() const noexcept { return size() == 0; }

    // Carries out what was added, and returns when this rank's part of all transfers is done: received data
    // is there, and sent data may be changed again. However run() ends, the group is empty then and may be
    // filled anew. An empty group does nothing. Throws as every operation does (communicator.hpp), and
    // invalid_argument if memory to receive into overlaps any other memory of the group; memory that is only
    // sent may be sent several times.
    void run();
    // Starts what was added, as Communicator::async() does: the buffers must stay until the Work has ended;
    // the group is empty at once. Throws invalid_argument; any other error goes to the Work.
    Work start(void* stream = nullptr);
    // Carries out what was added, as run() does, without exceptions; see Communicator::attempt().
    Status attempt() noexcept;

  private:
    void add(const OperationRequest& request);
    // Returns all that was added, as one task.
    Task take();

    Communicator* communicator_;
    std::shared_ptr<std::vector<Task>> transfers_;  // null: none
};

#pragma GCC visibility pop
}  // namespace ddprun
