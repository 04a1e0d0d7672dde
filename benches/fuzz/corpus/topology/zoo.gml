ggraph [
 directed 0
 node [ id 1 label "a" ]
 node [ id 2 label "b" x [ y 1 ] ]
 edge [ source 1 target 2 weight 2.5 ]
]
