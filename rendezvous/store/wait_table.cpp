#include "rendezvous/store/wait_table.hpp"

#include "rendezvous/base/check.hpp"

namespace ddprun {
inline namespace base {

std::size_t WaitTable::slot_bytes(std::string_view key) {
    // The key may be the list's first: count its map node as well.
    constexpr std::size_t kMapNode = 64;
    return key.size() + kMapNode + sizeof(Slot);
}

void WaitTable::add(ConnectionId connection, const std::vector<std::string_view>& missing) {
    check(!missing.empty(), "a wait for no key");
    Waits& waits = waits_[connection];
    Wait& wait = waits.emplace_back();
    wait.connection = connection;
    wait.missing = missing.size();
    wait.slots = std::vector<Slot>(missing.size());
    wait.self = std::prev(waits.end());
    for (std::size_t i = 0; i < missing.size(); ++i) {
        auto list = slots_by_key_.find(missing[i]);
        if (list == slots_by_key_.end()) list = slots_by_key_.try_emplace(std::string(missing[i])).first;
        Slot& slot = wait.slots[i];
        slot.wait = &wait;
        slot.home = &*list;
        list->second.push_back(slot);
        bytes_ += slot_bytes(missing[i]);
    }
}

void WaitTable::wake_all(std::string_view key, std::vector<ConnectionId>& over) {
    auto list = slots_by_key_.find(key);
    if (list == slots_by_key_.end()) return;
    while (!list->second.empty()) tick_first(list, over);
    erase_if_empty(list);
}

void WaitTable::wake_one(std::string_view key, std::vector<ConnectionId>& over) {
    auto list = slots_by_key_.find(key);
    if (list == slots_by_key_.end()) return;
    tick_first(list, over);
    erase_if_empty(list);
}

void WaitTable::forget(ConnectionId connection) {
    auto found = waits_.find(connection);
    if (found == waits_.end()) return;
    for (Wait& wait : found->second) {
        for (Slot& slot : wait.slots) {
            if (!slot.is_linked()) continue;
            SlotList& list = slot.home->second;
            bytes_ -= slot_bytes(slot.home->first);
            list.erase(list.iterator_to(slot));
            if (list.empty()) slots_by_key_.erase(slots_by_key_.find(slot.home->first));
        }
    }
    waits_.erase(found);
}

void WaitTable::tick_first(SlotLists::iterator list, std::vector<ConnectionId>& over) {
    Wait& wait = *list->second.front().wait;
    list->second.pop_front();
    bytes_ -= slot_bytes(list->first);
    if (--wait.missing > 0) return;
    over.push_back(wait.connection);
    auto waits = waits_.find(wait.connection);
    waits->second.erase(wait.self);
    if (waits->second.empty()) waits_.erase(waits);
}

void WaitTable::erase_if_empty(SlotLists::iterator list) {
    if (list->second.empty()) slots_by_key_.erase(list);
}

}  // namespace base
}  // namespace ddprun
