// ConnectionLimit: how many connections the port may hold: what the process's limit of open files leaves beside the
// launcher's own descriptors and its workers', or a restart would find none left. Pure but for that limit, which is read
// when it is made.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace ddprun::inline job {

class ConnectionLimit {
  public:
    // Of all kinds at one time, whatever the limit of open files.
    static constexpr std::size_t kMaxConnections = 65'536;
    // So many in any case: a job without its own agents is none.
    static constexpr std::size_t kLeastConnections = 64;

    // `spared` descriptors are for others.
    explicit ConnectionLimit(std::size_t spared);
    ConnectionLimit(std::size_t open_files, std::size_t spared);

    std::size_t most() const { return most_; }
    bool has_room(std::size_t open) const { return open < most_; }

    // What the user of this node should know when there is no room: the first time only.
    std::optional<std::string> tell_full();

  private:
    std::size_t open_files_;  // that the process may have
    std::size_t most_;
    bool is_told_ = false;
};

}  // namespace ddprun::inline job
