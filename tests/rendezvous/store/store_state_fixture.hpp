// A StoreState whose connections are strings. For its tests.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/store/outbox.hpp"
#include "rendezvous/store/store_state.hpp"
#include "rendezvous/store/wait_table.hpp"
#include "tests/support/outbox_bytes.hpp"

namespace ddprun {

// A store with connections that are nothing but strings.
class Bench final : public Outboxes {
  public:
    explicit Bench(std::size_t max_bytes = kMaxStoreBytes) : state(max_bytes) {}

    Outbox& outbox(ConnectionId connection) override { return boxes[connection]; }
    bool has_room(ConnectionId connection, std::size_t bytes) override {
        asked_room.emplace_back(connection, bytes);
        return bytes <= room;
    }

    // What connection has been sent since the last look.
    std::string taken(ConnectionId connection) { return take_all(boxes[connection]); }

    std::string ask(ConnectionId connection, const Request& request) {
        refusal = state.apply(connection, request, *this).value_or("");
        return taken(connection);
    }

    void set(std::string_view key, std::string_view value) {
        ask(99, {.opcode = Opcode::set, .key = key, .value = value});
    }
    std::string get(std::string_view key) { return ask(99, {.opcode = Opcode::get, .key = key}); }
    std::string add(std::string_view key, std::int64_t delta) {
        return ask(99, {.opcode = Opcode::add, .key = key, .number = delta});
    }
    std::string wait(ConnectionId connection, std::vector<std::string_view> keys) {
        return ask(connection, {.opcode = Opcode::wait, .keys = std::move(keys)});
    }
    std::string cancel(ConnectionId connection) { return ask(connection, {.opcode = Opcode::cancel_wait}); }
    void push(std::string_view key, std::string_view value) {
        ask(99, {.opcode = Opcode::queue_push, .key = key, .value = value});
    }
    std::string pop(std::string_view key) { return ask(99, {.opcode = Opcode::queue_pop, .key = key}); }

    StoreState state;
    std::map<ConnectionId, Outbox> boxes;
    std::size_t room = kMaxStoreBytes;  // for each event
    std::vector<std::pair<ConnectionId, std::size_t>> asked_room;
    std::string refusal;
};

}  // namespace ddprun
