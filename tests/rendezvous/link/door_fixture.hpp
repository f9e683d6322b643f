// A job's port with a key, and a door to it as an agent on another node has one. For the tests of both.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/link/store_door.hpp"
#include "rendezvous/server/rendezvous_server.hpp"
#include "tests/support/coordinator_fixture.hpp"
#include "tests/support/raw_client.hpp"

namespace ddprun {

class DoorFixture {
  public:
    DoorFixture()
        : door_(StoreDoor::make(
              {.key = key_, .on_remark = [this](const std::string& text) { remark_ = text; }})) {
        host(0);
        door_->begin_round(place());
    }

    void host(std::uint16_t port) {
        server_.emplace(RendezvousServerOptions{.port = port,
                                                .coordinator = {.version = hello(0, 2).version,
                                                                .run_id = hello(0, 2).run_id,
                                                                .job_id = "job",
                                                                .nnodes = 2},
                                                .key = key_});
    }
    void end_host() { server_.reset(); }
    Endpoint place() const { return server_->own_endpoint(); }

    const SecretKey& key() const { return key_; }
    StoreDoor& door() { return *door_; }
    RawClient client() const { return RawClient(door_->endpoint().port); }
    // At the store itself.
    RawClient neighbour() const { return RawClient(server_->port()); }
    // Of the door; only when its thread has said it, and says nothing more.
    const std::string& remark() const { return remark_; }

  private:
    SecretKey key_ = SecretKey::fresh();
    std::optional<RendezvousServer> server_;
    std::string remark_;
    std::unique_ptr<StoreDoor> door_;
};

}  // namespace ddprun
