// SilentPort: an address on loopback that answers nobody: connections to it neither succeed nor fail.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#include <vector>

#include "rendezvous/net/connect.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

class SilentPort {
  public:
    // A full backlog drops further SYNs: the one way to have silence on loopback.
    SilentPort() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
        REQUIRE(::listen(listener_.get(), 0) == 0);
        REQUIRE(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
        endpoint_ = {"127.0.0.1", ntohs(address.sin_port)};
        fill();
    }

    const Endpoint& endpoint() const { return endpoint_; }
    // Of the attempt that found it silent.
    boost::system::error_code error() const { return error_; }

  private:
    void fill() {
        constexpr int kMoreThanEnough = 8;
        for (int i = 0; i < kMoreThanEnough && !error_; ++i) {
            try {
                fill_.emplace_back(connect_tcp(endpoint_, std::chrono::milliseconds(200)));
            } catch (const boost::system::system_error& error) {
                error_ = error.code();
            }
        }
    }

    OwnedDescriptor listener_;
    Endpoint endpoint_;
    std::vector<OwnedDescriptor> fill_;
    boost::system::error_code error_;
};

}  // namespace ddprun
