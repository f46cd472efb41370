/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* main.p4 - what the main control of each architecture declares before its `apply`. */
    action set(bit<8> mode, bit<8> tc_mask, bit<16> lowest6, bit<32> pool4, bit<16> first_port, bit<16> port_mask) {
        hdr.work.mode = mode;
        hdr.work.tc_mask = (bit<32>)tc_mask;
        hdr.work.lowest6 = (bit<32>)lowest6;
        hdr.work.pool4 = pool4;
        hdr.work.first_port = first_port;
        hdr.work.port_mask = port_mask;
    }
    action off() {
        hdr.work.mode = MODE_OFF;
    }
    @name(".settings") table settings {
        actions = { set; off; }
        default_action = off();
    }
    action mine() {
        hdr.work.found = 1;
    }
    action not_mine() {
        hdr.work.found = 0;
    }
    @name(".local_mac") table local_mac {
        key = { hdr.ethernet.dst: exact; }
        actions = { mine; not_mine; }
        default_action = not_mine();
        size = 64;
    }
    answer_neighbours() neighbours;
    answer_echo() echo;
    check4() checked4;
    check6() checked6;
    stateless() mapped;
    sessions() known;
    next_hop() hop;
    write_6to4() written4;
    write_4to6() written6;
