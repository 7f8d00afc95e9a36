// The header in C++: its structs have initial values, and its functions can be called.
#include <cstring>

#include "haloport.h"

int main() {
    hp_grid grid = HP_GRID_INIT;
    hp_array array = HP_ARRAY_INIT;
    hp_options options = HP_OPTIONS_INIT;
    hp_ids ids = HP_IDS_INIT;
    hp_list list = HP_LIST_INIT;
    bool sized = grid.size == sizeof grid && array.size == sizeof array && options.size == sizeof options &&
                 ids.size == sizeof ids && list.size == sizeof list && array.axes == 0 && array.device == nullptr;
    hp_comm *comm = nullptr;
    bool made = hp_comm_threads(1, &comm) == HP_OK && comm != nullptr && hp_comm_free(comm) == HP_OK;
    return hp_abi() == HP_ABI && sized && made && std::strlen(hp_message()) > 0 ? 0 : 1;
}
