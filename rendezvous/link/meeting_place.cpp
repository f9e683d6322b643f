#include "rendezvous/link/meeting_place.hpp"

#include <fcntl.h>

#include <boost/asio/ip/address.hpp>
#include <boost/system/system_error.hpp>
#include <utility>

#include "rendezvous/net/socket.hpp"

namespace ddprun::inline job {

std::string MeetingPlace::open(const boost::asio::any_io_executor& executor, const std::string& address,
                               const FreePorts& free_ports) {
    if (address == address_ && !acceptors_.empty()) return {};
    acceptors_.clear();
    address_ = address;
    ListenPlan plan;
    boost::system::error_code no_address;
    const auto parsed = boost::asio::ip::make_address(address, no_address);
    if (no_address) return {};
    if (!parsed.is_loopback() || parsed.is_v6()) plan.addresses.push_back(address);
    try {
        acceptors_ = listen_tcp(executor, plan, 0, free_ports);
    } catch (const boost::system::system_error& error) {
        if (std::exchange(trouble_, error.what()) != error.what()) return trouble_;
    }
    return {};
}

void MeetingPlace::tell_in(Hello& hello) const {
    hello.meeting_address = address_;
    hello.meeting_port = acceptors_.empty() ? 0 : acceptors_.front().local_endpoint().port();
}

std::vector<OwnedDescriptor> MeetingPlace::sockets() {
    std::vector<OwnedDescriptor> copies;
    for (auto& acceptor : acceptors_)
        copies.emplace_back(::fcntl(acceptor.native_handle(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    return copies;
}

}  // namespace ddprun::inline job
